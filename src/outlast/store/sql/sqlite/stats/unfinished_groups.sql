SELECT group_id FROM (
    SELECT group_id FROM tasks INDEXED BY idx_tasks_ready_by_group
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL
      AND (:queue IS NULL OR queue = :queue)
    UNION
    SELECT group_id FROM tasks INDEXED BY idx_tasks_due
    WHERE status = 'pending' AND parked = 'delay' AND group_id IS NOT NULL
      AND (:queue IS NULL OR queue = :queue)
    UNION
    SELECT group_id FROM tasks INDEXED BY idx_tasks_parked
    WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay'
      AND group_id IS NOT NULL AND (:queue IS NULL OR queue = :queue)
    UNION
    SELECT group_id FROM tasks INDEXED BY idx_work_items_lease_expiry
    WHERE status = 'running' AND group_id IS NOT NULL AND (:queue IS NULL OR queue = :queue))
ORDER BY group_id
LIMIT :limit
