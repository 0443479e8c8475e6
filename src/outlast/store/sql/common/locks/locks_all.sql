SELECT name, worker_id, token, acquired_at, expires_at, expires_mono_ms, holder, incarnation,
       boot_id, host, pid, task_id
FROM lock_records ORDER BY name
