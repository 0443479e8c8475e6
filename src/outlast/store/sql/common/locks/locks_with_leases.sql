-- Asked at each batch of healing: locks that go with no lease are passed over here.
SELECT name, worker_id, token, acquired_at, expires_at, expires_mono_ms, holder, incarnation,
       boot_id, host, pid, task_id
FROM lock_records WHERE task_id IS NOT NULL
