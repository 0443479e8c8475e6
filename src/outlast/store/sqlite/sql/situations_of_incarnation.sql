SELECT s.* FROM workers w CROSS JOIN task_situations s
    ON s.holder = w.seq AND s.status = 'running'
WHERE w.incarnation = :incarnation
LIMIT :limit
