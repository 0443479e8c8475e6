SELECT incarnation, name, boot_id, pid, pid_started, pid_namespace, lock_file, lock_inode
FROM workers WHERE seq = :row
