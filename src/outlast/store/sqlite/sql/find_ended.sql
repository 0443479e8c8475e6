SELECT * FROM task_records
WHERE status = :status AND completed_at IS NOT NULL AND (:queue IS NULL OR queue = :queue)
ORDER BY seq DESC LIMIT :limit
