-- Whether there is a key to purge: a look by index, so that a start with none writes nothing.
SELECT 1 FROM task_keys
WHERE expires_at <= :now AND (status <> 'pending' OR task_id IS NULL)
LIMIT 1
