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
    result = :result,
    result_bytes = :result_bytes,
    result_sum = :result_sum,
    completed_at = max(:now, state_changed_at),
    state_changed_at = max(:now, state_changed_at)
WHERE seq = :seq AND status = 'running'
