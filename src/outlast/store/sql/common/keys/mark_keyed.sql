UPDATE tasks SET keyed = 1 WHERE id = :id
