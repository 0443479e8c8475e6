-- How many tasks a run moved behind a position of the stream.
SELECT count(*) FROM transitions INDEXED BY idx_transitions_run
WHERE run_id = :run_id AND pos > :after
