-- a NewTask whose payload is small, with anything in place of a key
INSERT INTO tasks (id, kind, queue, priority, group_id, payload, payload_sum, max_retries,
                   max_recoveries, not_before, retry_of, keyed, parked, created_at,
                   state_changed_at, payload_bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12, ?13 IS NOT NULL,
        iif(?10 IS NULL, NULL, 'delay'), ?11, ?11, coalesce(octet_length(?6), 0))
