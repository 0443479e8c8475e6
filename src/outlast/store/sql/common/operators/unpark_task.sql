UPDATE tasks SET parked = NULL, not_before = NULL, touched_at = :now
WHERE id = :id AND status = 'pending' AND parked IS NOT NULL
