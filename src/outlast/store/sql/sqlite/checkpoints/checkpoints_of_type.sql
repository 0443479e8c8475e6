SELECT c.id, t.id, c.group_id, c.checkpoint_type, c.sequence_number, c.attempt, c.snapshot_data,
       c.metadata, c.created_at
FROM task_checkpoints c INDEXED BY idx_checkpoints_type CROSS JOIN tasks t ON t.seq = c.task_seq
WHERE c.checkpoint_type = :type
ORDER BY c.created_at DESC, c.pos DESC
LIMIT :limit
