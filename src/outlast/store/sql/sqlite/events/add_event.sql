INSERT INTO events (pos, kind, incarnation, worker_id, run_id, task_seq, task_id, data, at)
VALUES ((SELECT seq FROM sqlite_sequence WHERE name = 'transitions'),
        :kind, :incarnation, :worker, :run_id,
        (SELECT seq FROM tasks WHERE id = :task_id), :task_id, :data, :now)
