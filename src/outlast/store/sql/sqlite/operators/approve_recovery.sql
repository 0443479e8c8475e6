-- Only what recovery holds: a task that a person or its handler parked stays parked.
UPDATE tasks SET parked = NULL, not_before = NULL, touched_at = :now
WHERE id = :id AND status = 'pending' AND parked = 'hold' AND held_by_recovery
