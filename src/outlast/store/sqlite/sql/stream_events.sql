SELECT pos, at, kind, task_seq, task_id, worker_id, run_id, data
FROM events
WHERE pos > :pos
ORDER BY pos LIMIT :limit
