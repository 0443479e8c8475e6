SELECT w.incarnation, min(w.name), w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, max(w.beat_at), max(w.beat_mono_ms), w.host
FROM workers w CROSS JOIN tasks t ON t.holder = w.seq AND t.status = 'running'
    AND CASE w.boot_id WHEN :boot_id THEN t.lease_expires_mono_ms > :mono
                       ELSE t.lease_expires_at > :now END
GROUP BY w.incarnation
