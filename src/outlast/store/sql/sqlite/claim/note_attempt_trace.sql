INSERT INTO task_traces (task_seq, attempt_traceparent)
SELECT seq, :traceparent FROM tasks
WHERE seq = :seq AND holder = :holder AND token = :token AND status = 'running'
ON CONFLICT DO UPDATE SET attempt_traceparent = excluded.attempt_traceparent
