SELECT seq, created_at, id, kind, queue, group_id, priority, retry_of
FROM tasks
WHERE seq > :task_seq
ORDER BY seq LIMIT :limit
