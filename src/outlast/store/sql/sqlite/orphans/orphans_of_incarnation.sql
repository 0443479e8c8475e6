SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM workers w CROSS JOIN task_situations s
    ON s.holder = w.seq AND s.status = 'running'
WHERE w.incarnation = :incarnation
  AND (:spared IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:spared)))
  AND (:only IS NULL OR s.kind IN (SELECT value FROM json_each(:only)))
LIMIT :limit
