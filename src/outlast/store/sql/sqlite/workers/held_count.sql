SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_holder
WHERE holder = :holder AND holder IS NOT NULL AND status = 'running'
