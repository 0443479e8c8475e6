UPDATE tasks SET parked = :reason, not_before = NULL, touched_at = :now WHERE id = :id AND status = 'pending'
