SELECT seq FROM tasks INDEXED BY idx_tasks_ready_by_group
WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL
  AND group_id = :group AND queue = :queue
ORDER BY priority DESC, seq
LIMIT :limit
