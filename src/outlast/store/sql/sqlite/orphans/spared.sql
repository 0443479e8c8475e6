-- Orphans of kinds that recovery leaves alone: of the dead, and by their leases; how many, with each.
SELECT t.id, count(*) OVER () FROM tasks t JOIN workers w ON w.seq = t.holder
WHERE t.status = 'running'
  AND (t.kind IN (SELECT value FROM json_each(:spared))
       OR (:only IS NOT NULL AND t.kind NOT IN (SELECT value FROM json_each(:only))))
  AND (w.incarnation IN (SELECT value FROM json_each(:dead))
       OR w.state <> 'alive'
       OR CASE w.boot_id WHEN :boot_id THEN t.lease_expires_mono_ms <= :mono
                         ELSE t.lease_expires_at <= :now END)
ORDER BY t.seq LIMIT :limit
