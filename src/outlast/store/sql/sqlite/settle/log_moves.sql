INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, error, at, exit_signal, peak_memory_bytes, run_id,
                         parked)
SELECT t.seq, :from, :to, :actor, :reason, t.attempt + :attempt, t.token, t.worker_id, :error,
       max(:now, t.state_changed_at), :exit_signal, :peak_memory_bytes, :run_id,
       :parked
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
