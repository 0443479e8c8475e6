-- An id that a key found taken by an earlier task is not there, or has its row already.
INSERT INTO task_traces (task_seq, traceparent, tracestate)
SELECT seq, :traceparent, :tracestate FROM tasks WHERE id = :id
ON CONFLICT DO NOTHING
