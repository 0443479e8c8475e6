-- how large a payload may be here; kind, queue, priority, max_retries, max_recoveries, not_before and
-- created_at of all of them; then id, payload and payload_sum of each
INSERT INTO tasks (id, kind, queue, priority, payload, payload_sum, max_retries, max_recoveries,
                   not_before, parked, created_at, state_changed_at, payload_bytes)
SELECT column1, ?2, ?3, ?4, iif(octet_length(column2) > ?1, NULL, column2), column3, ?5, ?6,
       ?7, iif(?7 IS NULL, NULL, 'delay'), ?8, ?8, coalesce(octet_length(column2), 0)
FROM (VALUES
-- one of these for each row
(?, ?, ?)
-- and then
)
WHERE column1 IS NOT NULL
