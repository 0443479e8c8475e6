SELECT * FROM task_situations WHERE id = :id
