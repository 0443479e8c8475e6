-- Whoever holds a lock, whether the list of workers calls it alive or not.
SELECT incarnation, min(name), boot_id, pid, pid_started, pid_namespace, lock_file, lock_inode,
       max(beat_at), max(beat_mono_ms), host
FROM workers
WHERE incarnation IN (SELECT h.incarnation FROM locks CROSS JOIN workers h ON h.seq = locks.holder)
  AND incarnation <> :incarnation
GROUP BY incarnation
