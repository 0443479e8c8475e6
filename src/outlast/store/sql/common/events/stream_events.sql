SELECT e.pos, e.at, e.kind, e.task_seq, e.task_id, t.kind, t.queue, e.worker_id, e.run_id, e.data
FROM events e LEFT JOIN tasks t ON t.seq = e.task_seq
WHERE e.pos > :pos
ORDER BY e.pos LIMIT :limit
