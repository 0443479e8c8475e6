SELECT queue, kind, count(*), count(CASE parked WHEN 'partial' THEN 1 END),
       count(CASE WHEN parked = 'hold' AND held_by_recovery THEN 1 END)
FROM tasks INDEXED BY idx_tasks_parked
WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay'
GROUP BY queue, kind
