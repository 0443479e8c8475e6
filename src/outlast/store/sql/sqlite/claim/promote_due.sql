UPDATE tasks SET parked = NULL, touched_at = :now WHERE seq IN (
    SELECT seq FROM tasks INDEXED BY idx_tasks_due
    WHERE status = 'pending' AND parked = 'delay' AND not_before <= :now
    ORDER BY not_before LIMIT :limit)
