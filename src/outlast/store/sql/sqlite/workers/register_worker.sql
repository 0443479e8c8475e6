INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace, lock_file,
                     lock_inode, registered_at, beat_at, beat_mono_ms, oom_kills)
VALUES (:incarnation, :name, :host, :boot_id, :pid, :pid_started, :pid_namespace, :lock_file,
        :lock_inode, :now, :now, :mono, :oom_kills)
-- A claim whose commit was in doubt may have registered us already; or a worker of this name has
-- ended its work and begins again. Whoever was declared dead stays so.
ON CONFLICT (incarnation, name) DO UPDATE SET
    beat_at = excluded.beat_at,
    beat_mono_ms = excluded.beat_mono_ms,
    ended_at = CASE state WHEN 'left' THEN NULL ELSE ended_at END,
    state = CASE state WHEN 'left' THEN 'alive' ELSE state END
RETURNING seq
