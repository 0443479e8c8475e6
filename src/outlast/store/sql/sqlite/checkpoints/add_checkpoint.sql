INSERT INTO task_checkpoints (id, task_seq, group_id, checkpoint_type, sequence_number, attempt,
                              snapshot_data, snapshot_sum, metadata, created_at)
SELECT :id, t.seq, t.group_id, :type,
       coalesce((SELECT max(c.sequence_number) FROM task_checkpoints c WHERE c.task_seq = t.seq),
                0) + 1,
       t.attempt, :data, :data_sum, :metadata, :now
FROM tasks t
WHERE t.seq = :seq AND t.holder = :holder AND t.token = :token AND t.status = 'running'
RETURNING sequence_number, group_id, attempt, (SELECT crashes_in_row FROM tasks WHERE seq = :seq)
