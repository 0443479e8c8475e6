SELECT status, count(*) FROM tasks WHERE queue = :queue GROUP BY status
