SELECT id FROM tasks INDEXED BY idx_tasks_parked
WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay' AND parked = 'hold'
  AND recovery_count > 0
ORDER BY seq LIMIT :limit
