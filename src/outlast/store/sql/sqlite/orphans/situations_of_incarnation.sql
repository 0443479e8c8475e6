SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed
FROM workers w CROSS JOIN task_situations s
    ON s.holder = w.seq AND s.status = 'running'
WHERE w.incarnation = :incarnation
LIMIT :limit
