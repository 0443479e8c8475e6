SELECT (SELECT not_before FROM tasks INDEXED BY idx_tasks_due
        WHERE status = 'pending' AND parked = 'delay' AND not_before > 0
        ORDER BY not_before LIMIT 1),
       (SELECT lease_expires_mono_ms FROM tasks INDEXED BY idx_work_items_lease_expiry
        WHERE status = 'running' AND lease_expires_mono_ms > :mono
        ORDER BY lease_expires_mono_ms LIMIT 1)
