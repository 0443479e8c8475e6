DELETE FROM task_keys WHERE idempotency_key IN (
    SELECT idempotency_key FROM task_keys
    WHERE expires_at <= :now AND (status <> 'pending' OR task_id IS NULL)
    LIMIT :limit)
