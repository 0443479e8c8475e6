SELECT x.pos, x.at, x.task_seq, t.id, t.kind, t.queue, x.worker_id, x.run_id, x.from_status,
       x.to_status, x.actor, x.reason, x.attempt, x.error, x.exit_signal, x.peak_memory_bytes,
       x.parked
FROM transitions x CROSS JOIN tasks t ON t.seq = x.task_seq
WHERE x.pos > :pos
ORDER BY x.pos LIMIT :limit
