INSERT INTO blobs (task_seq, part, data) SELECT seq, 'payload', :data FROM tasks WHERE id = :id
