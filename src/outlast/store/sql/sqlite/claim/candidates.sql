SELECT t.seq, t.id, t.kind, t.queue, t.group_id, t.attempt, t.retry_count, t.recovery_count,
       t.crashes_in_row, t.max_retries, t.max_recoveries, t.token, t.payload_sum,
       CAST(CASE WHEN t.payload IS NOT NULL OR t.payload_bytes = 0 THEN t.payload
                 ELSE (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'payload')
            END AS BLOB)
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
