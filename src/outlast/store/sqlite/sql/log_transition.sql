INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, error, at)
VALUES (:seq, :from, :to, :actor, :reason, :attempt, :token, :worker, :error, :at)
