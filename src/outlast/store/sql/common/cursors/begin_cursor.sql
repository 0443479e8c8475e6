INSERT INTO cursors (name, born, pos, task_seq, forgotten, created_at, moved_at)
VALUES (:name, :born, :pos, :task_seq, :forgotten, :now, :now)
ON CONFLICT (name) DO NOTHING
