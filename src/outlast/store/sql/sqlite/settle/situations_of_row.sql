SELECT seq, id, status, attempt, retry_count, recovery_count, max_retries, max_recoveries, token,
       holder, worker_id, unstarted, keyed
FROM task_situations
WHERE holder = :row AND status = 'running'
