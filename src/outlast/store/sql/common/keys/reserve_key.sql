-- Reserve or leave alone, in one statement. A key is free again when it expired and no live task
-- stands behind it, or when its task failed and the request is the same.
INSERT INTO task_keys (idempotency_key, task_id, group_id, request_hash, status, created_at,
                       expires_at)
VALUES (:key, :task_id, :group, :request_hash, 'pending', :now, :expires_at)
ON CONFLICT (idempotency_key) DO UPDATE SET
    task_id = excluded.task_id,
    group_id = excluded.group_id,
    request_hash = excluded.request_hash,
    response_data = NULL,
    status = 'pending',
    created_at = excluded.created_at,
    completed_at = NULL,
    expires_at = excluded.expires_at
WHERE (task_keys.status = 'failed' AND task_keys.request_hash = excluded.request_hash)
   OR (task_keys.expires_at <= :now
       AND (task_keys.status <> 'pending' OR task_keys.task_id IS NULL))
RETURNING task_id
