UPDATE tasks SET
    status = 'running',
    holder = :holder,
    worker_id = :worker,
    last_worker_id = :worker,
    token = max(token, :token_floor) + 1,
    attempt = attempt + 1,
    unstarted = :unstarted,
    lease_acquired_at = max(:now, state_changed_at),
    lease_expires_at = :now + :lease_ms,
    lease_expires_mono_ms = :mono + :lease_ms,
    heartbeat_at = :now,
    started_at = coalesce(started_at, max(:now, state_changed_at)),
    state_changed_at = max(:now, state_changed_at)
WHERE status = 'pending' AND seq IN carray(:seqs)
