UPDATE task_keys INDEXED BY idx_idempotency_keys_work_item
SET status = :status, response_data = :response, completed_at = :now
WHERE task_id = :task_id AND task_id IS NOT NULL AND status = 'pending'
