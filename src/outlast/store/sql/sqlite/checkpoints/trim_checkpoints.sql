-- The newest stay, and so does the newest iteration_end: a resume starts from it.
DELETE FROM task_checkpoints WHERE pos IN (
    SELECT c.pos FROM task_checkpoints c
    WHERE c.task_seq = (SELECT seq FROM tasks WHERE id = :task_id)
      AND c.pos IS NOT (SELECT max(e.pos) FROM task_checkpoints e
                        WHERE e.task_seq = c.task_seq AND e.checkpoint_type = 'iteration_end')
    ORDER BY c.sequence_number DESC
    LIMIT -1 OFFSET :keep)
