SELECT 1 FROM transitions
WHERE task_seq = :seq AND token = :token AND from_status = 'running' AND actor = 'worker'
