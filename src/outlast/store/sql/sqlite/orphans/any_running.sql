SELECT 1 FROM tasks INDEXED BY idx_work_items_lease_expiry WHERE status = 'running' LIMIT 1
