SELECT w.incarnation, w.name, w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, w.beat_at, w.beat_mono_ms, w.host, w.seq, w.state, w.registered_at,
       w.ended_at, (SELECT t.id FROM tasks t WHERE t.seq = w.task_seq), w.progress, w.serves,
       w.stuck
FROM workers w INDEXED BY idx_workers_alive
WHERE w.state = 'alive' AND (:name IS NULL OR w.name = :name)
