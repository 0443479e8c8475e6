SELECT seq, holder, token, id FROM tasks INDEXED BY idx_work_items_lease_holder
WHERE holder = :row AND status = 'running' AND unstarted
