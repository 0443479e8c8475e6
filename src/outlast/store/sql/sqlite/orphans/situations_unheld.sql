-- Rows that no constraint of ours lets be: running, and nobody's. Old or foreign hands made them.
SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM task_situations s
WHERE s.status = 'running' AND s.lease_expires_mono_ms IS NULL
  AND (:spared IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:spared)))
  AND (:only IS NULL OR s.kind IN (SELECT value FROM json_each(:only)))
LIMIT :limit
