INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace, lock_file,
                     lock_inode, registered_at, beat_at, beat_mono_ms)
VALUES (:incarnation, :name, :host, :boot_id, :pid, :pid_started, :pid_namespace, :lock_file,
        :lock_inode, :now, :now, :mono)
-- A claim whose commit was in doubt may have registered us already.
ON CONFLICT (incarnation, name) DO UPDATE SET beat_at = excluded.beat_at
RETURNING seq
