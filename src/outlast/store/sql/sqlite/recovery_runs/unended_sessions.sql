-- What older versions left, before the first run that is counted, is no session that could be told
-- from one that was recovered from; without that number nothing is told.
SELECT incarnation, started_at, pid, 0, host, boot_id, ''
FROM recovery_runs
WHERE session_ended_at IS NULL
  AND id >= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = :key)
  AND (:host IS NULL OR host = :host)
ORDER BY id
