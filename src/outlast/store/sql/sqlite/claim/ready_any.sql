SELECT seq FROM tasks INDEXED BY idx_work_items_status_priority
WHERE status = 'pending' AND parked IS NULL AND queue = :queue
ORDER BY priority DESC, seq
LIMIT :limit
