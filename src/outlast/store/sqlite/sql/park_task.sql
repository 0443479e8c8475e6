UPDATE tasks SET parked = :reason, not_before = NULL WHERE id = :id AND status = 'pending'
