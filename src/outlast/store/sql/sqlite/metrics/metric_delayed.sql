SELECT queue, kind, count(*), count(CASE WHEN not_before <= :now THEN 1 END), min(not_before)
FROM tasks INDEXED BY idx_tasks_due
WHERE status = 'pending' AND parked = 'delay'
GROUP BY queue, kind
