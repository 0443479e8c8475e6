INSERT INTO blobs (task_seq, part, data) SELECT seq, :part, :data FROM tasks WHERE id = :id
