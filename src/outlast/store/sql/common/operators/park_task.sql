UPDATE tasks SET parked = :reason, held_by_recovery = NULL, not_before = NULL, touched_at = :now
WHERE id = :id AND status = 'pending'
