INSERT INTO tasks (id, queue, kind, priority, group_id, parked, not_before, max_retries,
                   max_recoveries, keyed, created_at, state_changed_at, retry_of, payload_bytes,
                   payload_sum, payload)
SELECT *
FROM (VALUES
-- one of these for each row
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
-- and then
)
WHERE column1 IS NOT NULL
