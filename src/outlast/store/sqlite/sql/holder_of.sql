SELECT w.incarnation, w.name, w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, w.host
FROM tasks t JOIN workers w ON w.seq = t.holder
WHERE t.id = :id
