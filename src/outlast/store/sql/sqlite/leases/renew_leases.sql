-- The tokens were compared in this same transaction.
UPDATE tasks SET
    heartbeat_at = :now,
    lease_expires_at = max(lease_expires_at, :now + :lease_ms),
    lease_expires_mono_ms = max(lease_expires_mono_ms, :mono + :lease_ms)
WHERE status = 'running' AND seq IN (SELECT value FROM carray(:seqs))
