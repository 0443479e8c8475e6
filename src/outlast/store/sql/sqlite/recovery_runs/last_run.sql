SELECT id, incarnation, pid, host, trigger, started_at, completed_at, previous, crashed_at,
       put_back, failed, held, skipped, found_running, wal_bytes, wal_frames, details
FROM recovery_runs
WHERE completed_at IS NOT NULL AND (:trigger IS NULL OR trigger = :trigger)
ORDER BY id DESC LIMIT 1
