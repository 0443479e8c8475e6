UPDATE tasks SET parked = 'partial', touched_at = :now WHERE status = 'pending' AND seq = :seq
