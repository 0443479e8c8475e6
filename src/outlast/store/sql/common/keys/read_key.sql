SELECT request_hash, task_id FROM task_keys WHERE idempotency_key = :key
