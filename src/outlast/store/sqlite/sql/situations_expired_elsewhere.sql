-- Leases of other boots have only UTC in common with us.
SELECT s.* FROM workers w CROSS JOIN task_situations s
    ON s.holder = w.seq AND s.status = 'running'
WHERE w.state = 'alive' AND w.boot_id <> :boot_id AND s.lease_expires_at <= :now
LIMIT :limit
