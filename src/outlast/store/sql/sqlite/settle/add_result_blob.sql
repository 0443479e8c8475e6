INSERT INTO blobs (task_seq, part, data) VALUES (:seq, 'result', :data)
