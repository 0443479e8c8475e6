SELECT incarnation, min(name), boot_id, pid, pid_started, pid_namespace, lock_file, lock_inode
FROM workers WHERE state = 'alive' AND incarnation <> :incarnation
GROUP BY incarnation
