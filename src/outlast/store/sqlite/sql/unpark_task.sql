UPDATE tasks SET parked = NULL, not_before = NULL
WHERE id = :id AND status = 'pending' AND parked IS NOT NULL
