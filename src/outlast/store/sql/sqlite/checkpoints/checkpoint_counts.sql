SELECT c.checkpoint_type, count(*)
FROM tasks t CROSS JOIN task_checkpoints c ON c.task_seq = t.seq
WHERE t.id = :task_id
GROUP BY c.checkpoint_type
