SELECT w.incarnation, w.name, w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, w.beat_at, w.beat_mono_ms, w.host, w.seq, w.state, w.registered_at,
       w.ended_at, (SELECT n.id FROM tasks n WHERE n.seq = w.task_seq), w.progress, w.serves,
       w.stuck, t.lease_expires_at, t.lease_expires_mono_ms, t.unstarted, t.seq,
       t.token
FROM tasks t JOIN workers w ON w.seq = t.holder
WHERE t.id = :id
