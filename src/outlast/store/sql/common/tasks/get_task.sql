SELECT * FROM task_records WHERE id = :id
