-- Leases of this boot run on the shared monotonic clock.
SELECT s.* FROM task_situations s CROSS JOIN workers w ON w.seq = s.holder
WHERE s.status = 'running' AND s.lease_expires_mono_ms <= :mono AND w.boot_id = :boot_id
LIMIT :limit
