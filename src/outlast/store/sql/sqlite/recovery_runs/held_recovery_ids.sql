SELECT id FROM tasks INDEXED BY idx_tasks_parked
WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay' AND parked = 'hold'
  AND held_by_recovery
ORDER BY seq LIMIT :limit
