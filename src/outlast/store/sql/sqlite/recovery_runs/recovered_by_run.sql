-- The tasks a run moved, in the order it moved them, a page at a time.
SELECT x.pos, t.id, t.kind, x.worker_id, x.to_status, x.reason, x.attempt, t.max_retries,
       t.max_recoveries, x.error, x.at
FROM transitions x INDEXED BY idx_transitions_run JOIN tasks t ON t.seq = x.task_seq
WHERE x.run_id = :run_id AND x.pos > :after
ORDER BY x.pos LIMIT :limit
