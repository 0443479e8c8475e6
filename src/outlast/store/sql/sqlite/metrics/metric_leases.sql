SELECT queue, kind, count(*), min(lease_acquired_at), min(heartbeat_at)
FROM tasks INDEXED BY idx_work_items_lease_expiry
WHERE status = 'running'
GROUP BY queue, kind
