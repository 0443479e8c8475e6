-- How many leases have run out, each by the clock it runs on: that of this boot, or else UTC. Those
-- of kinds that recovery leaves alone are somebody's to decide about.
SELECT (SELECT count(*)
        FROM tasks t INDEXED BY idx_work_items_lease_expiry CROSS JOIN workers w ON w.seq = t.holder
        WHERE t.status = 'running' AND t.lease_expires_mono_ms <= :mono AND w.boot_id = :boot_id
              AND (:spared IS NULL OR t.kind NOT IN (SELECT value FROM json_each(:spared)))
              AND (:only IS NULL OR t.kind IN (SELECT value FROM json_each(:only))))
     + (SELECT count(*)
        FROM workers w CROSS JOIN tasks t ON t.holder = w.seq AND t.status = 'running'
        WHERE w.state = 'alive' AND w.boot_id <> :boot_id AND t.lease_expires_at <= :now
              AND (:spared IS NULL OR t.kind NOT IN (SELECT value FROM json_each(:spared)))
              AND (:only IS NULL OR t.kind IN (SELECT value FROM json_each(:only))))
