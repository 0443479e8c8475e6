SELECT seq FROM tasks INDEXED BY idx_tasks_due
WHERE status = 'pending' AND parked = 'delay' AND not_before <= :now
LIMIT 1
