-- The same by the other marks: a holder that is no worker, no start, no end in UTC. A look at all
-- running rows, which a claim does not take.
SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM tasks s INDEXED BY idx_work_items_lease_expiry
WHERE s.status = 'running'
  AND (s.started_at IS NULL OR s.lease_expires_at IS NULL
       OR NOT EXISTS (SELECT 1 FROM workers w WHERE w.seq = s.holder))
  AND (:spared IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:spared)))
  AND (:only IS NULL OR s.kind IN (SELECT value FROM json_each(:only)))
LIMIT :limit
