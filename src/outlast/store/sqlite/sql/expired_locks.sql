-- Named locks whose time has passed, those of another boot by UTC, the only clock they share with
-- us; and those of incarnations that are given as dead.
SELECT locks.name, locks.worker_id, locks.token, :now - locks.expires_at
FROM locks LEFT JOIN workers w ON w.seq = locks.holder
WHERE CASE w.boot_id WHEN :boot_id THEN locks.expires_mono_ms <= :mono
                     ELSE locks.expires_at <= :now END
   OR w.incarnation IN (SELECT value FROM json_each(:dead))
LIMIT :limit
