-- Leases of this boot run on the shared monotonic clock.
SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM task_situations s CROSS JOIN workers w ON w.seq = s.holder
WHERE s.status = 'running' AND s.lease_expires_mono_ms <= :mono AND w.boot_id = :boot_id
  AND (:spared IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:spared)))
  AND (:only IS NULL OR s.kind IN (SELECT value FROM json_each(:only)))
LIMIT :limit
