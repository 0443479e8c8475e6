SELECT * FROM task_records
WHERE status = 'running' AND lease_expires_at IS NOT NULL
  AND (:queue IS NULL OR queue = :queue)
ORDER BY +seq DESC LIMIT :limit
