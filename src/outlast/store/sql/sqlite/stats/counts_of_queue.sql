-- Delayed and running tasks are looked up one by one; all else is told by the indexes alone.
SELECT (SELECT count(*) FROM tasks INDEXED BY idx_work_items_status_priority
        WHERE status = 'pending' AND parked IS NULL AND queue = :queue)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_due
          WHERE status = 'pending' AND parked = 'delay' AND queue = :queue)
       + (SELECT count(*) FROM tasks INDEXED BY idx_tasks_parked
          WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay'
            AND queue = :queue) AS pending,
       (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
        WHERE status = 'running' AND queue = :queue) AS running,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'completed' AND completed_at IS NOT NULL AND queue = :queue) AS completed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'failed' AND completed_at IS NOT NULL AND queue = :queue) AS failed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'cancelled' AND completed_at IS NOT NULL AND queue = :queue) AS cancelled
