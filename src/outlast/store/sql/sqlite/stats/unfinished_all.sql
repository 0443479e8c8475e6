SELECT (SELECT count(*) FROM tasks INDEXED BY idx_work_items_status_priority
        WHERE status = 'pending' AND parked IS NULL)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_due
          WHERE status = 'pending' AND parked = 'delay')
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_parked
          WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay')
       + (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
          WHERE status = 'running')
