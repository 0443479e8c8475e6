-- By the claim index alone; the row of the oldest tells since when it has been ready.
SELECT g.queue, g.kind, g.tasks, max(t.created_at, coalesce(t.not_before, 0))
FROM (SELECT queue, kind, count(*) AS tasks, min(seq) AS oldest
      FROM tasks INDEXED BY idx_tasks_ready_by_kind
      WHERE status = 'pending' AND parked IS NULL
      GROUP BY queue, kind) g
CROSS JOIN tasks t ON t.seq = g.oldest
