-- Only what a completion changes: counters that are not named here need not be checked again.
UPDATE tasks SET
    status = 'completed',
    holder = NULL,
    worker_id = NULL,
    lease_acquired_at = NULL,
    lease_expires_at = NULL,
    lease_expires_mono_ms = NULL,
    heartbeat_at = NULL,
    unstarted = 0,
    stage = NULL,
    error = NULL,
    completed_at = max(:now, state_changed_at),
    state_changed_at = max(:now, state_changed_at)
WHERE status = 'running' AND seq IN carray(:seqs)
