INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace, lock_file,
                     lock_inode, registered_at, beat_at, beat_mono_ms)
VALUES (:incarnation, :name, :host, :boot_id, :pid, :pid_started, :pid_namespace, :lock_file,
        :lock_inode, :now, :now, :mono)
RETURNING seq
