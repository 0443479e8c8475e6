-- Running tasks that gave no sign of life for some time, whatever their leases say.
SELECT s.seq, s.id, s.status, s.attempt, s.retry_count, s.recovery_count, s.crashes_in_row,
       s.max_retries, s.max_recoveries, s.token, s.holder, s.worker_id, s.unstarted, s.keyed,
       s.kind, s.heartbeat_at
FROM task_situations s JOIN workers w ON w.seq = s.holder
WHERE s.status = 'running' AND s.heartbeat_at <= :now - :silent_ms
  AND (:force = 1
       OR CASE w.boot_id WHEN :boot_id THEN s.lease_expires_mono_ms <= :mono
                         ELSE s.lease_expires_at <= :now END)
LIMIT :limit
