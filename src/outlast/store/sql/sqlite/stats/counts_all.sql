-- Each number comes from the smallest index that knows it, and none from the table.
SELECT (SELECT count(*) FROM tasks INDEXED BY idx_work_items_status_priority
        WHERE status = 'pending' AND parked IS NULL)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_due
          WHERE status = 'pending' AND parked = 'delay')
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_parked
          WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay') AS pending,
       (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
        WHERE status = 'running') AS running,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'completed' AND completed_at IS NOT NULL) AS completed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'failed' AND completed_at IS NOT NULL) AS failed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'cancelled' AND completed_at IS NOT NULL) AS cancelled
