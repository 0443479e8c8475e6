SELECT r.* FROM workers w
    CROSS JOIN tasks t INDEXED BY idx_work_items_lease_holder
        ON t.holder = w.seq AND t.status = 'running'
    JOIN task_records r ON r.seq = t.seq
WHERE w.name = :worker AND w.state = 'alive'
ORDER BY t.seq
