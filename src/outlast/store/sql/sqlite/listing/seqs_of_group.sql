SELECT seq FROM tasks INDEXED BY idx_work_items_task
WHERE group_id = :group AND group_id IS NOT NULL AND (:status IS NULL OR status = :status)
  AND (:queue IS NULL OR queue = :queue)
ORDER BY seq DESC
LIMIT :limit
