INSERT INTO locks (name, holder, worker_id, token, acquired_at, expires_at, expires_mono_ms,
                   task_seq, task_token)
VALUES (:name, :row, :worker, :token, :now, :now + :ttl_ms, :mono + :ttl_ms,
        :task_seq, :task_token)
-- Free from the very moment it ends; a lock of another boot has only UTC in common with us.
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    worker_id = excluded.worker_id,
    token = excluded.token,
    acquired_at = excluded.acquired_at,
    expires_at = excluded.expires_at,
    expires_mono_ms = excluded.expires_mono_ms,
    task_seq = excluded.task_seq,
    task_token = excluded.task_token
WHERE NOT EXISTS (
    SELECT 1 FROM lock_records r
    WHERE r.name = excluded.name
      AND CASE r.boot_id WHEN :boot_id THEN r.expires_mono_ms > :mono
                         ELSE r.expires_at > :now END)
RETURNING token
