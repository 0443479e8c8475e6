INSERT INTO events (pos, kind, incarnation, worker_id, run_id, task_seq, task_id, data, at)
VALUES (coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'transitions'), 0) + 1,
        :kind, :incarnation, :worker, :run_id,
        (SELECT seq FROM tasks WHERE id = :task_id), :task_id, :data, :now)
