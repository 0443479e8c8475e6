SELECT c.id, t.id, c.group_id, c.checkpoint_type, c.sequence_number, c.attempt, c.snapshot_data,
       c.metadata, c.created_at
FROM tasks t CROSS JOIN task_checkpoints c INDEXED BY idx_checkpoints_work_item
    ON c.task_seq = t.seq
WHERE t.id = :task_id AND (:type IS NULL OR c.checkpoint_type = :type)
ORDER BY c.sequence_number DESC
LIMIT :limit
