-- Workers that are off the list and yet hold tasks; nothing makes them, and nothing may keep them.
SELECT w.incarnation, min(w.name), w.boot_id, w.pid, w.pid_started, w.pid_namespace, w.lock_file,
       w.lock_inode, max(w.beat_at), max(w.beat_mono_ms), w.host
FROM (SELECT DISTINCT holder FROM tasks WHERE holder IS NOT NULL) h
    CROSS JOIN workers w ON w.seq = h.holder
WHERE w.state <> 'alive' AND w.incarnation <> :incarnation
GROUP BY w.incarnation
