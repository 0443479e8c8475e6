UPDATE tasks SET
    heartbeat_at = :now,
    lease_expires_at = max(lease_expires_at, :now + :lease_ms),
    lease_expires_mono_ms = max(lease_expires_mono_ms, :mono + :lease_ms),
    stage = coalesce(:stage, stage)
WHERE seq = :seq AND holder = :holder AND token = :token AND status = 'running'
