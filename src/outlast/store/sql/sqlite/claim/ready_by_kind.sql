SELECT seq, priority FROM tasks INDEXED BY idx_tasks_ready_by_kind
WHERE status = 'pending' AND parked IS NULL AND queue = :queue AND kind = :member
-- merged by
ORDER BY priority DESC, seq
LIMIT :limit
