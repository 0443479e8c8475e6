SELECT seq, id, status, attempt, retry_count, recovery_count,
       crashes_in_row, max_retries, max_recoveries, token,
       holder, worker_id, unstarted, keyed
FROM task_situations
WHERE holder = :row AND status = 'running'
