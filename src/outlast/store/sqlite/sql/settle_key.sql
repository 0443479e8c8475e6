UPDATE task_keys
SET status = :status, response_data = :response, completed_at = :now
WHERE task_id = :task_id AND status = 'pending'
