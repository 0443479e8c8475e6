SELECT x.at, x.from_status, x.to_status, x.actor, x.reason, x.attempt, x.token, x.worker_id,
       x.error, x.exit_signal, x.peak_memory_bytes
FROM tasks t CROSS JOIN transitions x ON x.task_seq = t.seq
WHERE t.id = :id
ORDER BY x.pos
