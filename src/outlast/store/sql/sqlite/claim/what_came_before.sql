-- Of tasks that are claimed anew: their counters, and by which move each came back last.
SELECT t.seq, t.retry_count, t.max_retries, t.recovery_count,
       coalesce((SELECT x.reason FROM transitions x
                 WHERE x.task_seq = t.seq AND x.to_status = 'pending'
                 ORDER BY x.pos DESC LIMIT 1), 'unknown')
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
