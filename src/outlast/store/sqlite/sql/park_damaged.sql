UPDATE tasks SET parked = 'partial' WHERE status = 'pending' AND seq = :seq
