SELECT count(*), count(CASE WHEN heartbeat_at < :now - :stale_ms THEN 1 END),
       avg(:now - heartbeat_at) / 60000.0
FROM tasks INDEXED BY idx_work_items_lease_expiry
WHERE status = 'running'
