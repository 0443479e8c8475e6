-- In no order: ready, then delayed, then parked for good.
SELECT seq FROM tasks INDEXED BY idx_work_items_status_priority
WHERE status = 'pending' AND parked IS NULL
UNION ALL
SELECT seq FROM tasks INDEXED BY idx_tasks_due
WHERE status = 'pending' AND parked = 'delay'
UNION ALL
SELECT seq FROM tasks INDEXED BY idx_tasks_parked
WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay'
LIMIT :limit
