SELECT incarnation, min(name), boot_id, pid, pid_started, pid_namespace, lock_file, lock_inode,
       max(beat_at), max(beat_mono_ms), host
FROM workers WHERE state = 'alive' AND incarnation = :incarnation
GROUP BY incarnation
