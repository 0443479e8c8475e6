SELECT EXISTS (SELECT 1 FROM tasks
               WHERE id = :id AND status = 'pending' AND parked = 'hold' AND held_by_recovery)
