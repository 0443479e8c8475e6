SELECT * FROM task_records
WHERE seq < :before AND (:status IS NULL OR status = :status)
  AND (:queue IS NULL OR queue = :queue)
ORDER BY seq DESC
LIMIT :limit
