-- Each number comes from the smallest index that knows it; what is left over is pending.
SELECT (SELECT count(*) FROM tasks) AS total,
       (SELECT count(*) FROM tasks INDEXED BY idx_work_items_lease_expiry
        WHERE status = 'running') AS running,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'completed' AND completed_at IS NOT NULL) AS completed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'failed' AND completed_at IS NOT NULL) AS failed,
       (SELECT count(*) FROM tasks INDEXED BY idx_jobs_status_updated
        WHERE status = 'cancelled' AND completed_at IS NOT NULL) AS cancelled
