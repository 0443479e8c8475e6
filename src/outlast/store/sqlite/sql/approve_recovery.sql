-- Only what recovery holds: a task that a person parked stays parked.
UPDATE tasks SET parked = NULL, not_before = NULL, touched_at = :now
WHERE id = :id AND status = 'pending' AND parked = 'hold' AND recovery_count > 0
