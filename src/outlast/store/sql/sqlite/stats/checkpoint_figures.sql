SELECT t.id, t.group_id, c.amount, c.highest,
       (SELECT min(f.created_at) FROM task_checkpoints f WHERE f.task_seq = c.task_seq),
       (SELECT max(l.created_at) FROM task_checkpoints l WHERE l.task_seq = c.task_seq)
FROM (SELECT task_seq, count(*) AS amount, max(sequence_number) AS highest
      FROM task_checkpoints INDEXED BY idx_checkpoints_work_item
      GROUP BY task_seq ORDER BY amount DESC, task_seq LIMIT :limit) c
    CROSS JOIN tasks t ON t.seq = c.task_seq
ORDER BY c.amount DESC, c.task_seq
