SELECT (SELECT count(*) FROM tasks INDEXED BY idx_work_items_status_priority
        WHERE status = 'pending' AND parked IS NULL AND queue = :queue)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_due
          WHERE status = 'pending' AND parked = 'delay' AND queue = :queue)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_parked
          WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay'
            AND queue = :queue)
       + (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
          WHERE status = 'running' AND queue = :queue)
