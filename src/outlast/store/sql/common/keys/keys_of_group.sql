SELECT idempotency_key, task_id, group_id, request_hash, response_data, status, created_at,
       completed_at, expires_at
FROM task_keys WHERE group_id = :value ORDER BY created_at DESC LIMIT :limit
