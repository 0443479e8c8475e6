UPDATE task_keys INDEXED BY idx_idempotency_keys_work_item
SET task_id = :clone, status = 'pending', response_data = NULL, completed_at = NULL
WHERE task_id = :original AND task_id IS NOT NULL AND status = 'failed'
