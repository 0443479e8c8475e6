SELECT seq FROM tasks INDEXED BY idx_jobs_status_updated
WHERE status = :status AND completed_at IS NOT NULL AND (:queue IS NULL OR queue = :queue)
LIMIT :limit
