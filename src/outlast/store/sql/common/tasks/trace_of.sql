SELECT traceparent, tracestate, attempt_traceparent FROM task_traces WHERE task_seq = :seq
