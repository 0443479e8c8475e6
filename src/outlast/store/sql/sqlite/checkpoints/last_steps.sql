-- What each task of a set was last known to be at, for those of which anything is known.
SELECT t.seq, t.stage, c.sequence_number, c.checkpoint_type, nullif(c.attempt, t.attempt)
FROM carray(:seqs) a CROSS JOIN tasks t ON t.seq = a.value
LEFT JOIN task_checkpoints c INDEXED BY idx_checkpoints_work_item
    ON c.task_seq = t.seq
    AND c.sequence_number = (SELECT max(k.sequence_number) FROM task_checkpoints k
                             WHERE k.task_seq = t.seq)
WHERE coalesce(t.stage, c.sequence_number) IS NOT NULL
