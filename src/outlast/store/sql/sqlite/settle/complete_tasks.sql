-- result, its size, its sum, the moment, seq
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
    result = given.column1,
    result_bytes = given.column2,
    result_sum = given.column3,
    completed_at = max(given.column4, state_changed_at),
    state_changed_at = max(given.column4, state_changed_at)
FROM (VALUES
-- one of these for each row
(?, ?, ?, ?, ?)
-- and then
) given
WHERE tasks.seq = given.column5 AND tasks.status = 'running'
