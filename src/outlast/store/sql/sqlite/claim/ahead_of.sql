SELECT (SELECT count(*) FROM (
            SELECT 1 FROM tasks INDEXED BY idx_work_items_status_priority
            WHERE status = 'pending' AND parked IS NULL AND queue = :queue
              AND priority > :priority
            LIMIT :limit)),
       (SELECT count(*) FROM (
            SELECT 1 FROM tasks INDEXED BY idx_work_items_status_priority
            WHERE status = 'pending' AND parked IS NULL AND queue = :queue
              AND priority = :priority AND seq < (SELECT seq FROM tasks WHERE id = :id)
            LIMIT :limit))
