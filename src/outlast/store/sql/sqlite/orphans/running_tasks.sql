-- All that is running, in the order of lease ends, a page at a time; with the holder to be judged.
SELECT t.seq, t.id, t.status, t.attempt, t.retry_count, t.recovery_count, t.crashes_in_row,
       t.max_retries, t.max_recoveries, t.token, t.holder, t.worker_id,
       t.unstarted, t.keyed, t.kind,
       t.heartbeat_at, iif(t.started_at IS NULL, NULL, t.lease_expires_at), t.lease_expires_mono_ms,
       w.incarnation, w.name, w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, w.beat_at, w.beat_mono_ms, w.host, w.state
FROM tasks t INDEXED BY idx_work_items_lease_expiry LEFT JOIN workers w ON w.seq = t.holder
WHERE t.status = 'running'
  AND (coalesce(t.lease_expires_mono_ms, -1), t.seq) > (:after_mono_ms, :after_seq)
ORDER BY t.lease_expires_mono_ms, t.seq
LIMIT :limit
