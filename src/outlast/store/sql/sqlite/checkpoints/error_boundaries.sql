-- A checkpoint for each task of a set whose lease ran out, numbered on from its last one.
INSERT INTO task_checkpoints (id, task_seq, group_id, checkpoint_type, sequence_number, attempt,
                              snapshot_data, snapshot_sum, metadata, created_at)
SELECT :id_prefix || printf('%08x', t.seq), t.seq, t.group_id, 'error_boundary',
       1 + coalesce((SELECT max(k.sequence_number) FROM task_checkpoints k
                     WHERE k.task_seq = t.seq), 0),
       t.attempt, :data, :sum, NULL, :now
FROM carray(:seqs) c CROSS JOIN tasks t ON t.seq = c.value
