-- Named locks whose time has passed; those of another boot have only UTC in common with us.
SELECT l.name, l.worker_id, l.token, :now - l.expires_at
FROM locks l LEFT JOIN workers w ON w.seq = l.holder
WHERE CASE w.boot_id WHEN :boot_id THEN l.expires_mono_ms <= :mono ELSE l.expires_at <= :now END
LIMIT :limit
