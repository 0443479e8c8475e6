SELECT seq, priority FROM tasks INDEXED BY idx_tasks_ready_by_group_kind
WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL
  AND group_id = :group AND queue = :queue AND kind = :member
-- merged by
ORDER BY priority DESC, seq
LIMIT :limit
