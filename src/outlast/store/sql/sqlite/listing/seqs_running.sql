SELECT seq FROM tasks INDEXED BY idx_work_items_lease_expiry
WHERE status = 'running' AND (:queue IS NULL OR queue = :queue)
LIMIT :limit
