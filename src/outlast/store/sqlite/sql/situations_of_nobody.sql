-- The same by the other mark: a holder that is no worker. A look at all running rows, at start only.
SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.max_retries,
       s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM task_situations s
WHERE s.status = 'running' AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.seq = s.holder)
  AND (:spared IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:spared)))
  AND (:only IS NULL OR s.kind IN (SELECT value FROM json_each(:only)))
LIMIT :limit
