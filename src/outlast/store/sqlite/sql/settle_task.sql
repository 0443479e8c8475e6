UPDATE tasks SET
    status = :to,
    holder = NULL,
    worker_id = NULL,
    lease_acquired_at = NULL,
    lease_expires_at = NULL,
    lease_expires_mono_ms = NULL,
    heartbeat_at = NULL,
    unstarted = 0,
    stage = NULL,
    parked = :parked,
    not_before = :not_before,
    attempt = :attempt,
    retry_count = :retry_count,
    recovery_count = :recovery_count,
    error = CASE :to WHEN 'completed' THEN NULL ELSE coalesce(:error, error) END,
    result = :result,
    result_bytes = :result_bytes,
    result_sum = :result_sum,
    completed_at = :completed_at,
    state_changed_at = :at
WHERE seq = :seq AND status = :from AND token = :token AND holder IS :holder
RETURNING seq
