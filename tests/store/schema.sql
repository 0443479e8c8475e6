CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    source  TEXT NOT NULL,
    action  TEXT NOT NULL,
    status  TEXT NOT NULL,
    subject TEXT,
    run_id  INTEGER,
    data    TEXT NOT NULL DEFAULT '{}',
    CONSTRAINT audit_status CHECK (CASE status WHEN 'succeeded' THEN 1 WHEN 'failed' THEN 1 ELSE 0 END)
) STRICT;

CREATE TABLE blobs (
    task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    part     TEXT NOT NULL,
    data     TEXT NOT NULL,
    PRIMARY KEY (task_seq, part)
) STRICT;

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    born       INTEGER NOT NULL,
    pos        INTEGER NOT NULL,
    task_seq   INTEGER NOT NULL,
    forgotten  INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    moved_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    pos         INTEGER PRIMARY KEY,
    kind        TEXT NOT NULL,
    incarnation TEXT,
    worker_id   TEXT,
    run_id      INTEGER,
    data        TEXT NOT NULL DEFAULT '{}',
    at          INTEGER NOT NULL,
    -- Some events are about one task, such as its parking, and come after its creation.
    task_seq    INTEGER,
    task_id     TEXT
) STRICT;

CREATE TABLE groups (
    id         TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE locks (
    name            TEXT PRIMARY KEY,
    holder          INTEGER REFERENCES workers (seq),
    worker_id       TEXT NOT NULL,
    token           INTEGER NOT NULL,
    acquired_at     INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    expires_mono_ms INTEGER NOT NULL,
    -- A lock may go with a lease: then it is held as long as that lease, and ends with it.
    task_seq        INTEGER,
    task_token      INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE metric_buckets (upto_ms INTEGER PRIMARY KEY) STRICT;

CREATE TABLE metric_pairs (
    queue TEXT NOT NULL,
    kind  TEXT NOT NULL,
    PRIMARY KEY (queue, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric_rollup (
    queue   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    was     TEXT NOT NULL,
    became  TEXT NOT NULL,
    reason  TEXT NOT NULL,
    actor   TEXT NOT NULL,
    upto_ms INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    sum_ms  INTEGER NOT NULL,
    PRIMARY KEY (queue, kind, was, became, reason, actor, upto_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE queues (
    name      TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE recovery_runs (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation   TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    host          TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    trigger       TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    session_ended_at INTEGER,
    previous      TEXT NOT NULL,
    crashed_at    INTEGER,
    put_back      INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    held          INTEGER NOT NULL DEFAULT 0,
    skipped       INTEGER NOT NULL DEFAULT 0,
    found_running INTEGER NOT NULL DEFAULT 0,
    wal_bytes     INTEGER,
    wal_frames    INTEGER,
    details       TEXT NOT NULL DEFAULT '{}',
    -- Whether it has anything to tell, so that the newest such is found among the empty ones.
    has_findings  INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT run_previous CHECK (
        CASE previous WHEN 'clean' THEN 1 WHEN 'unclean' THEN 1 WHEN 'none' THEN 1
                      WHEN 'in use' THEN 1 ELSE 0 END)
) STRICT;

CREATE TABLE task_checkpoints (
    pos             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    task_seq        INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    group_id        TEXT REFERENCES groups (id) ON DELETE CASCADE,
    checkpoint_type TEXT NOT NULL,
    sequence_number INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    snapshot_data   TEXT NOT NULL,
    snapshot_sum    TEXT NOT NULL,
    metadata        TEXT,
    created_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE task_dues (
    task_seq INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    due_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE task_keys (
    idempotency_key TEXT PRIMARY KEY,
    task_id         TEXT REFERENCES tasks (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    group_id        TEXT REFERENCES groups (id) ON DELETE SET NULL,
    request_hash    TEXT NOT NULL,
    response_data   TEXT,
    status          TEXT NOT NULL DEFAULT 'pending',
    created_at      INTEGER NOT NULL,
    completed_at    INTEGER,
    expires_at      INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE task_traces (
    task_seq            INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    traceparent         TEXT,
    tracestate          TEXT,
    attempt_traceparent TEXT
) STRICT;

CREATE TABLE tasks (
    seq                   INTEGER PRIMARY KEY AUTOINCREMENT,
    id                    TEXT NOT NULL UNIQUE,
    status                TEXT NOT NULL DEFAULT 'pending',
    queue                 TEXT NOT NULL,
    kind                  TEXT NOT NULL,
    priority              INTEGER NOT NULL DEFAULT 0,
    group_id              TEXT REFERENCES groups (id) ON DELETE CASCADE,
    parked                TEXT,
    not_before            INTEGER,
    stage                 TEXT,
    attempt               INTEGER NOT NULL DEFAULT 0,
    retry_count           INTEGER NOT NULL DEFAULT 0,
    -- All crashes that were taken back, and those of them since the task last recorded progress:
    -- the latter are compared with max_recoveries or, where that is NULL, the recoverer's setting.
    recovery_count        INTEGER NOT NULL DEFAULT 0,
    crashes_in_row        INTEGER NOT NULL DEFAULT 0,
    max_retries           INTEGER NOT NULL DEFAULT 3,
    max_recoveries        INTEGER,
    token                 INTEGER NOT NULL DEFAULT 0,
    holder                INTEGER REFERENCES workers (seq),
    worker_id             TEXT,
    last_worker_id        TEXT,
    lease_acquired_at     INTEGER,
    lease_expires_at      INTEGER,
    lease_expires_mono_ms INTEGER,
    heartbeat_at          INTEGER,
    unstarted             INTEGER NOT NULL DEFAULT 0,
    keyed                 INTEGER NOT NULL DEFAULT 0,
    created_at            INTEGER NOT NULL,
    started_at            INTEGER,
    state_changed_at      INTEGER NOT NULL,
    touched_at            INTEGER,
    completed_at          INTEGER,
    retry_of              TEXT,
    payload_bytes         INTEGER NOT NULL DEFAULT 0,
    payload_sum           INTEGER NOT NULL,
    result_bytes          INTEGER NOT NULL DEFAULT 0,
    result_sum            INTEGER,
    error                 TEXT,
    payload               TEXT,
    result                TEXT,
    -- Whether a held task waits for the approval of its recovery, or somebody parked it otherwise.
    held_by_recovery      INTEGER,
    -- A sum of columns is NULL when any of them is, and coalesce() is NULL only when all are:
    -- two cheap tests in place of a dozen, evaluated on every write of a row.
    CONSTRAINT task_is_whole CHECK (
        CASE status
            WHEN 'running' THEN
                holder + lease_acquired_at + lease_expires_at + lease_expires_mono_ms
                    + heartbeat_at + started_at IS NOT NULL
                AND worker_id IS NOT NULL
                AND token > 0 AND attempt > 0
                AND coalesce(completed_at, parked) IS NULL
            WHEN 'pending' THEN
                coalesce(holder, worker_id, lease_acquired_at, lease_expires_at,
                         lease_expires_mono_ms, heartbeat_at, completed_at) IS NULL
                AND CASE WHEN parked IS NULL THEN 1
                    ELSE CASE parked WHEN 'delay' THEN not_before IS NOT NULL
                                     WHEN 'event' THEN 1
                                     WHEN 'approval' THEN 1
                                     WHEN 'hold' THEN 1
                                     WHEN 'partial' THEN 1
                                     ELSE 0 END END
            ELSE
                CASE status WHEN 'completed' THEN 1 WHEN 'failed' THEN 1 WHEN 'cancelled' THEN 1
                            ELSE 0 END
                AND completed_at IS NOT NULL
                AND coalesce(holder, worker_id, lease_acquired_at, lease_expires_at,
                             lease_expires_mono_ms, heartbeat_at, parked) IS NULL
        END),
    CONSTRAINT task_budgets CHECK (
        retry_count >= 0 AND retry_count <= max_retries
        AND crashes_in_row >= 0 AND crashes_in_row <= recovery_count AND recovery_count <= 100
        AND attempt >= 0)
) STRICT;

CREATE TABLE transitions (
    pos         INTEGER PRIMARY KEY AUTOINCREMENT,
    task_seq    INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    from_status TEXT NOT NULL,
    to_status   TEXT NOT NULL,
    actor       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    worker_id   TEXT,
    error       TEXT,
    at          INTEGER NOT NULL,
    -- How an attempt in a process of its own ended.
    exit_signal INTEGER,
    peak_memory_bytes INTEGER,
    -- Which run moved the task; the report of recovery derives its list from it.
    run_id      INTEGER,
    -- For what the task was parked by the move, if it was: only so does the stream tell of a hold.
    parked      TEXT
) STRICT;

CREATE TABLE workers (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation   TEXT NOT NULL,
    name          TEXT NOT NULL,
    host          TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    pid_started   INTEGER NOT NULL,
    pid_namespace TEXT NOT NULL,
    lock_file     TEXT NOT NULL,
    lock_inode    INTEGER NOT NULL,
    state         TEXT NOT NULL DEFAULT 'alive',
    registered_at INTEGER NOT NULL,
    beat_at       INTEGER NOT NULL,
    beat_mono_ms  INTEGER NOT NULL,
    ended_at      INTEGER,
    -- What its last beat said: the task it is at, how far it is, what it serves, what is stuck.
    task_seq      INTEGER REFERENCES tasks (seq) ON DELETE SET NULL,
    progress      TEXT,
    serves        TEXT,
    stuck         TEXT,
    -- What it had used at its last beat, and how often the kernel had run out of memory when it
    -- registered: what can be known of its death afterwards.
    peak_memory_bytes INTEGER,
    oom_kills     INTEGER,
    UNIQUE (incarnation, name),
    CONSTRAINT worker_state CHECK (
        CASE state WHEN 'alive' THEN ended_at IS NULL
                   WHEN 'left' THEN ended_at IS NOT NULL
                   WHEN 'dead' THEN ended_at IS NOT NULL
                   ELSE 0 END)
) STRICT;

CREATE INDEX idx_checkpoints_created_at ON task_checkpoints (created_at DESC);

CREATE INDEX idx_checkpoints_task_sequence ON task_checkpoints (group_id, pos)
    WHERE group_id IS NOT NULL;

CREATE INDEX idx_checkpoints_type ON task_checkpoints (checkpoint_type, created_at DESC);

CREATE UNIQUE INDEX idx_checkpoints_work_item ON task_checkpoints (task_seq, sequence_number);

CREATE INDEX idx_events_kind ON events (kind, pos);

CREATE INDEX idx_heartbeats_timestamp ON workers (beat_at);

CREATE INDEX idx_idempotency_keys_expires_at ON task_keys (expires_at)
    WHERE expires_at IS NOT NULL;

CREATE INDEX idx_idempotency_keys_status ON task_keys (status, created_at DESC);

CREATE INDEX idx_idempotency_keys_task ON task_keys (group_id, created_at DESC)
    WHERE group_id IS NOT NULL;

CREATE INDEX idx_idempotency_keys_work_item ON task_keys (task_id, created_at DESC)
    WHERE task_id IS NOT NULL;

CREATE INDEX idx_jobs_status_updated ON tasks (status, completed_at, queue)
    WHERE completed_at IS NOT NULL;

CREATE INDEX idx_runs_telling ON recovery_runs (id) WHERE has_findings;

CREATE INDEX idx_tasks_due ON tasks (not_before)
    WHERE status = 'pending' AND parked = 'delay';

CREATE INDEX idx_tasks_parked ON tasks (queue, group_id)
    WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay';

CREATE INDEX idx_tasks_ready_by_group ON tasks (group_id, queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;

CREATE INDEX idx_tasks_ready_by_group_kind ON tasks (group_id, queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;

CREATE INDEX idx_tasks_ready_by_kind ON tasks (queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;

CREATE INDEX idx_tasks_recovered ON tasks (recovery_count) WHERE recovery_count > 1;

CREATE INDEX idx_transitions_acts ON transitions (pos) WHERE actor <> 'worker';

CREATE INDEX idx_transitions_run ON transitions (run_id, pos) WHERE run_id IS NOT NULL;

CREATE INDEX idx_transitions_task ON transitions (task_seq);

CREATE INDEX idx_work_items_lease_expiry ON tasks (lease_expires_mono_ms)
    WHERE status = 'running';

CREATE INDEX idx_work_items_lease_holder ON tasks (holder, status)
    WHERE holder IS NOT NULL;

CREATE INDEX idx_work_items_status_priority ON tasks (queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;

CREATE INDEX idx_work_items_task ON tasks (group_id, status, created_at DESC)
    WHERE group_id IS NOT NULL;

CREATE INDEX idx_workers_alive ON workers (state, incarnation) WHERE state = 'alive';

CREATE INDEX idx_workers_task ON workers (task_seq) WHERE task_seq IS NOT NULL;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

CREATE TRIGGER check_checkpoints_type BEFORE INSERT ON task_checkpoints
WHEN CASE new.checkpoint_type
         WHEN 'iteration_start' THEN 0
         WHEN 'iteration_end' THEN 0
         WHEN 'tool_executed' THEN 0
         WHEN 'llm_response' THEN 0
         WHEN 'approval_point' THEN 0
         WHEN 'state_transition' THEN 0
         WHEN 'manual_checkpoint' THEN 0
         WHEN 'error_boundary' THEN 0
         ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown checkpoint type');
END;

CREATE TRIGGER check_idempotency_keys_status BEFORE INSERT ON task_keys
WHEN CASE new.status WHEN 'pending' THEN 0 WHEN 'completed' THEN 0 WHEN 'failed' THEN 0
                     ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown idempotency key status');
END;

CREATE TRIGGER check_idempotency_keys_status_change BEFORE UPDATE OF status ON task_keys
WHEN CASE new.status WHEN 'pending' THEN 0 WHEN 'completed' THEN 0 WHEN 'failed' THEN 0
                     ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'unknown idempotency key status');
END;

CREATE TRIGGER check_work_items_status AFTER UPDATE OF status ON tasks
WHEN old.status <> new.status
     AND CASE old.status WHEN 'running' THEN 0
                         WHEN 'pending' THEN new.status = 'completed'
                         ELSE 1 END
BEGIN
    SELECT RAISE(ABORT, 'a task cannot move that way: see the legal moves in the documentation');
END;

CREATE TRIGGER checkpoints_are_kept BEFORE DELETE ON task_checkpoints
WHEN EXISTS (SELECT 1 FROM tasks WHERE seq = old.task_seq)
     AND (old.group_id IS NULL OR EXISTS (SELECT 1 FROM groups WHERE id = old.group_id))
     AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'retention_running')
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only; only retention and their task remove them');
END;

CREATE TRIGGER checkpoints_are_never_changed BEFORE UPDATE ON task_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only');
END;

CREATE TRIGGER checkpoints_are_never_replaced BEFORE INSERT ON task_checkpoints
WHEN EXISTS (SELECT 1 FROM task_checkpoints WHERE pos = new.pos)
     OR EXISTS (SELECT 1 FROM task_checkpoints WHERE id = new.id)
     OR EXISTS (SELECT 1 FROM task_checkpoints
                WHERE task_seq = new.task_seq AND sequence_number = new.sequence_number)
BEGIN
    SELECT RAISE(ABORT, 'checkpoints are append-only');
END;

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER metrics_are_folded AFTER UPDATE OF value ON counters
WHEN new.name = 'metrics_fold_upto'
BEGIN
    INSERT INTO metric_pairs (queue, kind)
    SELECT m.queue, m.kind FROM metric_marks m
    WHERE m.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
      AND m.pos <= new.value
      AND NOT EXISTS (SELECT 1 FROM metric_pairs p WHERE p.queue = m.queue AND p.kind = m.kind)
    GROUP BY m.queue, m.kind ORDER BY min(m.pos)
    LIMIT max(0, 500 - (SELECT count(*) FROM metric_pairs));

    INSERT INTO metric_rollup (queue, kind, was, became, reason, actor, upto_ms, count, sum_ms)
    SELECT coalesce(p.queue, 'other'), coalesce(p.kind, 'other'), m.was, m.became, m.reason,
           m.actor, m.upto_ms, count(*), sum(m.ms)
    FROM metric_marks m LEFT JOIN metric_pairs p ON p.queue = m.queue AND p.kind = m.kind
    WHERE m.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
      AND m.pos <= new.value
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT DO UPDATE SET count = count + excluded.count, sum_ms = sum_ms + excluded.sum_ms;

    UPDATE counters SET value = max(value, new.value) WHERE name = 'metrics_folded';
END;

CREATE TRIGGER removed_events_were_counted BEFORE DELETE ON events
WHEN old.pos > (SELECT value FROM counters WHERE name = 'metrics_folded')
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto';
END;

CREATE TRIGGER removed_runs_were_counted BEFORE DELETE ON recovery_runs
WHEN EXISTS (SELECT 1 FROM events e
             WHERE e.kind = 'recovery.completed' AND e.run_id = old.id
               AND e.pos > (SELECT value FROM counters WHERE name = 'metrics_folded'))
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto';
END;

CREATE TRIGGER removed_tasks_were_counted BEFORE DELETE ON tasks
WHEN old.token > 0 OR old.completed_at IS NOT NULL
BEGIN
    UPDATE counters SET value = (SELECT seq FROM sqlite_sequence WHERE name = 'transitions')
    WHERE name = 'metrics_fold_upto'
      AND (SELECT value FROM counters WHERE name = 'metrics_folded')
          < (SELECT seq FROM sqlite_sequence WHERE name = 'transitions');

    INSERT INTO metric_rollup (queue, kind, was, became, reason, actor, upto_ms, count, sum_ms)
    SELECT coalesce(p.queue, 'other'), coalesce(p.kind, 'other'), old.status, 'removed', '', '',
           0, 1, 0
    FROM (SELECT 1) LEFT JOIN metric_pairs p ON p.queue = old.queue AND p.kind = old.kind
    WHERE old.completed_at IS NOT NULL
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER transitions_are_never_changed BEFORE UPDATE ON transitions
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only');
END;

CREATE TRIGGER transitions_live_with_their_task BEFORE DELETE ON transitions
WHEN EXISTS (SELECT 1 FROM tasks WHERE seq = old.task_seq)
BEGIN
    SELECT RAISE(ABORT, 'transitions are append-only and go with their task');
END;

CREATE TRIGGER update_work_items_timestamp AFTER UPDATE ON tasks
WHEN new.state_changed_at <= old.state_changed_at
     AND coalesce(new.heartbeat_at <= old.heartbeat_at, new.heartbeat_at IS old.heartbeat_at)
     AND new.touched_at IS old.touched_at
BEGIN
    UPDATE tasks SET touched_at = CAST(unixepoch('subsec') * 1000 AS INTEGER)
    WHERE seq = new.seq;
END;

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

CREATE VIEW lock_records AS
SELECT locks.name, locks.worker_id, locks.token, locks.acquired_at,
       coalesce(t.lease_expires_at, locks.expires_at) AS expires_at,
       coalesce(t.lease_expires_mono_ms, locks.expires_mono_ms) AS expires_mono_ms,
       locks.holder, w.incarnation, w.boot_id, w.host, w.pid, t.id AS task_id
FROM locks
LEFT JOIN workers w ON w.seq = locks.holder
LEFT JOIN tasks t ON t.seq = locks.task_seq AND t.status = 'running' AND t.token = locks.task_token
WHERE locks.task_seq IS NULL OR t.seq IS NOT NULL;

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

CREATE VIEW queue_processing_lock AS
SELECT (l.name <> 'default') + row_number() OVER (PARTITION BY l.name = 'default' ORDER BY l.name)
           AS id,
       l.worker_id AS agent_id,
       l.acquired_at / 1000 AS acquired_at,
       l.expires_at / 1000 AS expires_at,
       l.name AS name
FROM lock_records l;

CREATE VIEW schema_version AS
SELECT '0.30.0' AS version, 'the words of the schema seed' AS description, m.applied_at AS applied_at
FROM migrations m WHERE m.number = 1
UNION ALL
SELECT printf('%04d', m.number), m.name, m.applied_at FROM migrations m;

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

CREATE VIEW worker_heartbeats AS
SELECT w.name AS worker_id,
       coalesce((SELECT n.id FROM tasks n WHERE n.seq = w.task_seq),
                (SELECT t.id FROM tasks t WHERE t.holder = w.seq AND t.status = 'running'
                 ORDER BY t.seq LIMIT 1)) AS task_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', w.beat_at / 1000.0, 'unixepoch') AS timestamp
FROM workers w
WHERE w.state = 'alive';

