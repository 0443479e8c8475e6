INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, at)
SELECT t.seq, 'pending', 'running', :actor, :reason, t.attempt, t.token, t.worker_id,
       t.state_changed_at
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
