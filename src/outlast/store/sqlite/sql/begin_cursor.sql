INSERT INTO cursors (name, pos, task_seq, forgotten, created_at, moved_at)
VALUES (:name, :pos, :task_seq, :forgotten, :now, :now)
ON CONFLICT (name) DO NOTHING
