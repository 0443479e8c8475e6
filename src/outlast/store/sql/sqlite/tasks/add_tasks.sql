-- how large a payload may be here, and NewTasks with anything in place of a key
INSERT INTO tasks (id, kind, queue, priority, group_id, payload, payload_sum, max_retries,
                   max_recoveries, not_before, retry_of, keyed, parked, created_at,
                   state_changed_at, payload_bytes)
SELECT column1, column2, column3, column4, column5,
       iif(octet_length(column6) > ?1, NULL, column6), column7, column8, column9, column10,
       column12, column13 IS NOT NULL, iif(column10 IS NULL, NULL, 'delay'), column11, column11,
       coalesce(octet_length(column6), 0)
FROM (VALUES
-- one of these for each row
(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
-- and then
)
WHERE column1 IS NOT NULL
