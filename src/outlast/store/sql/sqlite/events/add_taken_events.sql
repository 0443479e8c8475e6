-- Before the rows go: one event for each task, in the order of the array.
INSERT INTO events (pos, kind, task_seq, task_id, worker_id, data, at)
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
           + row_number() OVER (ORDER BY t.seq),
       :kind, t.seq, t.id, NULL,
       json_object('task_kind', t.kind, 'queue', t.queue), :now
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
