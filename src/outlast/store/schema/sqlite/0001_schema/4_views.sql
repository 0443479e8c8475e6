-- The seeds' read queries run as written on these views, in their words and time formats.

CREATE VIEW work_items AS
SELECT t.id AS work_item_id,
       t.group_id AS task_id,
       t.kind AS work_type,
       CASE t.status WHEN 'running' THEN 'in_progress' ELSE t.status END AS status,
       t.priority AS priority,
       t.worker_id AS lease_holder,
       datetime(t.lease_acquired_at / 1000, 'unixepoch') AS lease_acquired_at,
       datetime(t.lease_expires_at / 1000, 'unixepoch') AS lease_expires_at,
       datetime(t.heartbeat_at / 1000, 'unixepoch') AS heartbeat_at,
       min(max(t.attempt - 1, 0), t.max_retries) AS retry_count,
       t.max_retries AS max_retries,
       coalesce(t.payload,
                (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'payload'))
           AS input_data,
       coalesce(t.result,
                (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'result'))
           AS output_data,
       t.error AS error_message,
       datetime(t.created_at / 1000, 'unixepoch') AS created_at,
       datetime(t.started_at / 1000, 'unixepoch') AS started_at,
       datetime(t.completed_at / 1000, 'unixepoch') AS completed_at,
       datetime(max(t.state_changed_at, coalesce(t.heartbeat_at, 0), coalesce(t.touched_at, 0))
                / 1000, 'unixepoch') AS updated_at
FROM tasks t;

CREATE VIEW checkpoints AS
SELECT c.id AS checkpoint_id,
       c.group_id AS task_id,
       (SELECT t.id FROM tasks t WHERE t.seq = c.task_seq) AS work_item_id,
       c.checkpoint_type AS checkpoint_type,
       c.pos AS sequence_number,
       c.snapshot_data AS snapshot_data,
       c.metadata AS metadata,
       datetime(c.created_at / 1000, 'unixepoch') AS created_at
FROM task_checkpoints c;

CREATE VIEW idempotency_keys AS
SELECT k.idempotency_key AS idempotency_key,
       k.group_id AS task_id,
       k.task_id AS work_item_id,
       k.request_hash AS request_hash,
       k.response_data AS response_data,
       k.status AS status,
       datetime(k.created_at / 1000, 'unixepoch') AS created_at,
       datetime(k.completed_at / 1000, 'unixepoch') AS completed_at,
       datetime(k.expires_at / 1000, 'unixepoch') AS expires_at
FROM task_keys k;

-- A beat's task is the one it named, else the first that its worker holds.
CREATE VIEW worker_heartbeats AS
SELECT w.name AS worker_id,
       coalesce((SELECT n.id FROM tasks n WHERE n.seq = w.task_seq),
                (SELECT t.id FROM tasks t WHERE t.holder = w.seq AND t.status = 'running'
                 ORDER BY t.seq LIMIT 1)) AS task_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.beat_at / 1000.0, 'unixepoch') AS timestamp
FROM workers w
WHERE w.state = 'alive';

CREATE VIEW merge_queue AS
SELECT t.seq AS id,
       t.queue AS workspace,
       t.group_id AS bead_id,
       t.priority AS priority,
       CASE t.status WHEN 'running' THEN coalesce(t.stage, 'claimed') ELSE t.status END AS status,
       t.worker_id AS agent_id,
       t.created_at / 1000 AS added_at,
       t.lease_acquired_at / 1000 AS started_at,
       t.state_changed_at / 1000 AS state_changed_at,
       t.completed_at / 1000 AS completed_at,
       t.error AS error_message
FROM tasks t;

CREATE VIEW queue_processing_lock AS
SELECT (l.name <> 'default') + row_number() OVER (PARTITION BY l.name = 'default' ORDER BY l.name)
           AS id,
       l.worker_id AS agent_id,
       l.acquired_at / 1000 AS acquired_at,
       l.expires_at / 1000 AS expires_at,
       l.name AS name
FROM lock_records l;

CREATE VIEW pending_messages AS
SELECT t.seq AS id,
       t.group_id AS session_db_id,
       t.kind AS message_type,
       CASE t.status WHEN 'running' THEN 'processing'
                     WHEN 'completed' THEN 'processed'
                     ELSE t.status END AS status,
       max(t.attempt - 1, 0) AS retry_count,
       t.created_at AS created_at_epoch,
       t.lease_acquired_at AS started_processing_at_epoch,
       t.completed_at AS completed_at_epoch,
       CASE t.status WHEN 'failed' THEN t.completed_at END AS failed_at_epoch,
       coalesce(t.payload,
                (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'payload'))
           AS payload
FROM tasks t;

CREATE VIEW schema_version AS
SELECT '0.30.0' AS version, 'the words of the schema seed' AS description, m.applied_at AS applied_at
FROM migrations m WHERE m.number = 1
UNION ALL
SELECT printf('%04d', m.number), m.name, m.applied_at FROM migrations m;

-- Our own read models: a task as its user sees it, what a decision about it needs, and what is
-- held, counted and audited.
-- Payload and result come as bytes: a damaged byte may leave no text to be read as one.

CREATE VIEW task_records AS
SELECT t.id, t.kind, t.queue, t.status, t.priority, t.group_id, t.parked, t.stage,
       t.attempt, t.retry_count, t.recovery_count, t.crashes_in_row, t.max_retries,
       t.max_recoveries, t.token, t.worker_id, t.last_worker_id, t.error, t.retry_of, t.created_at,
       max(t.state_changed_at, coalesce(t.heartbeat_at, 0), coalesce(t.touched_at, 0))
           AS updated_at,
       t.state_changed_at, t.not_before, t.started_at, t.completed_at, t.lease_acquired_at,
       t.lease_expires_at, t.heartbeat_at,
       CAST(CASE WHEN t.payload IS NOT NULL OR t.payload_bytes = 0 THEN t.payload
                 ELSE (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'payload')
            END AS BLOB) AS payload,
       t.payload_sum,
       CAST(CASE WHEN t.result IS NOT NULL OR t.result_bytes = 0 THEN t.result
                 ELSE (SELECT b.data FROM blobs b WHERE b.task_seq = t.seq AND b.part = 'result')
            END AS BLOB) AS result,
       t.result_sum,
       t.seq
FROM tasks t;

CREATE VIEW task_situations AS
SELECT t.seq, t.id, t.status, t.attempt, t.retry_count, t.recovery_count,
       t.crashes_in_row, t.max_retries, t.max_recoveries, t.token, t.holder, t.worker_id,
       t.unstarted, t.keyed,
       t.state_changed_at, t.lease_expires_at, t.lease_expires_mono_ms, t.kind, t.heartbeat_at
FROM tasks t;

-- The locks that were not given back, those whose time has passed among them.
CREATE VIEW lock_records AS
SELECT locks.name, locks.worker_id, locks.token, locks.acquired_at,
       coalesce(t.lease_expires_at, locks.expires_at) AS expires_at,
       coalesce(t.lease_expires_mono_ms, locks.expires_mono_ms) AS expires_mono_ms,
       locks.holder, w.incarnation, w.boot_id, w.host, w.pid, t.id AS task_id
FROM locks
LEFT JOIN workers w ON w.seq = locks.holder
LEFT JOIN tasks t ON t.seq = locks.task_seq AND t.status = 'running' AND t.token = locks.task_token
WHERE locks.task_seq IS NULL OR t.seq IS NOT NULL;

-- One row for each position that is counted. `ms`: how long an attempt took that ended, how long a
-- task waited for its first claim, or how long a recovery took.
CREATE VIEW metric_marks AS
SELECT m.pos, m.queue, m.kind, m.was, m.became, m.reason, m.actor,
       coalesce((SELECT b.upto_ms FROM metric_buckets b WHERE b.upto_ms >= m.ms
                 ORDER BY b.upto_ms LIMIT 1), 0) AS upto_ms,
       coalesce(m.ms, 0) AS ms
FROM (SELECT x.pos, t.queue, t.kind, x.from_status AS was, x.to_status AS became, x.reason,
             CASE x.actor WHEN 'worker' THEN 'worker' WHEN 'system/recovery' THEN 'recovery'
                          ELSE 'operator' END AS actor,
             CASE WHEN x.from_status = 'running' THEN
                 (SELECT max(0, x.at - c.at) FROM transitions c
                  WHERE c.task_seq = x.task_seq AND c.pos < x.pos AND c.to_status = 'running'
                  ORDER BY c.pos DESC LIMIT 1)
             WHEN x.to_status = 'running'
                  AND NOT EXISTS (SELECT 1 FROM transitions p
                                  WHERE p.task_seq = x.task_seq AND p.pos < x.pos) THEN
                 max(0, x.at - max(t.created_at,
                                   coalesce((SELECT d.due_at FROM task_dues d
                                             WHERE d.task_seq = t.seq AND d.due_at <= x.at), 0)))
             END AS ms
      FROM transitions x CROSS JOIN tasks t ON t.seq = x.task_seq
      UNION ALL
      SELECT e.pos, coalesce(e.data ->> '$.queue', ''), coalesce(e.data ->> '$.task_kind', ''), '',
             e.kind, '', '',
             CASE e.kind WHEN 'recovery.completed' THEN
                 (SELECT max(0, e.at - r.started_at) FROM recovery_runs r WHERE r.id = e.run_id)
             END
      FROM events e
      WHERE e.kind IN ('worker.dead', 'task.taken', 'recovery.completed')) m;

-- The audit item by item: each task and each lock that anyone but its holder has moved.
CREATE VIEW audit_items AS
SELECT x.pos, x.at, x.actor,
       CASE WHEN x.actor <> 'system/recovery' THEN 'operator'
            WHEN x.run_id IS NULL THEN 'self_healing' ELSE 'crash_recovery' END AS source,
       x.reason AS action, t.id AS subject, x.run_id,
       json_object('from', x.from_status, 'to', x.to_status, 'worker', x.worker_id,
                   'attempt', x.attempt, 'error', x.error) AS data
FROM transitions x INDEXED BY idx_transitions_acts CROSS JOIN tasks t ON t.seq = x.task_seq
WHERE x.actor <> 'worker'
UNION ALL
SELECT e.pos, e.at, coalesce(e.data ->> '$.actor', 'system/recovery'),
       CASE WHEN e.data ->> '$.actor' IS NOT NULL THEN 'operator'
            WHEN e.run_id IS NULL THEN 'self_healing' ELSE 'crash_recovery' END,
       e.kind, coalesce(e.task_id, e.data ->> '$.lock'), e.run_id,
       iif(e.worker_id IS NULL, e.data, json_set(e.data, '$.worker', e.worker_id))
FROM events e
WHERE e.kind IN ('lock.expired', 'lock.freed', 'lock.released')
   OR e.kind IN ('task.parked', 'task.unparked') AND e.data ->> '$.actor' IS NOT NULL;
