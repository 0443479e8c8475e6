SELECT 1 FROM tasks INDEXED BY idx_tasks_due
WHERE status = 'pending' AND parked = 'delay' AND not_before > 0 AND attempt > 0
      AND queue IN (SELECT value FROM json_each(:queues))
      AND kind IN (SELECT value FROM json_each(:kinds))
      AND seq NOT IN (SELECT value FROM json_each(:excluding))
LIMIT 1
