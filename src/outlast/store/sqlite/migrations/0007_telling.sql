-- Who did what: recovery runs, healing passes, and every act of an operator, by name.
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

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is append-only');
END;

-- How far each named subscriber is in the stream: its last position, and the last task whose
-- creation it was told, since creations have no row of their own there; and up to which position
-- it was told that parts are gone. A name that was forgotten and begun anew has another `born`.
CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    born       INTEGER NOT NULL,
    pos        INTEGER NOT NULL,
    task_seq   INTEGER NOT NULL,
    forgotten  INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    moved_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Some events are about one task, such as its parking, and come after its creation.
ALTER TABLE events ADD COLUMN task_seq INTEGER;
ALTER TABLE events ADD COLUMN task_id TEXT;

-- Whether a held task waits for the approval of its recovery, or somebody parked it for another reason.
ALTER TABLE tasks ADD COLUMN held_by_recovery INTEGER;
UPDATE tasks SET held_by_recovery = 1
WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay' AND parked = 'hold'
  AND recovery_count > 0;

-- For what the task was parked by the move, if it was: only so does the stream tell of a hold.
ALTER TABLE transitions ADD COLUMN parked TEXT;

-- Numbers that only rise: what no row would show afterwards.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A lock may go with a lease: then it is held as long as that lease, and ends with it.
ALTER TABLE locks ADD COLUMN task_seq INTEGER;
ALTER TABLE locks ADD COLUMN task_token INTEGER;

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

DROP VIEW queue_processing_lock;

CREATE VIEW queue_processing_lock AS
SELECT row_number() OVER (ORDER BY l.name <> 'default', l.name) AS id,
       l.worker_id AS agent_id,
       l.acquired_at / 1000 AS acquired_at,
       l.expires_at / 1000 AS expires_at,
       l.name AS name
FROM lock_records l;

-- Whether a run has anything to tell, so that the newest such is found among the empty ones.
ALTER TABLE recovery_runs ADD COLUMN has_findings INTEGER NOT NULL DEFAULT 0;
CREATE INDEX idx_runs_telling ON recovery_runs (id) WHERE has_findings;

-- Metrics. Counts must outlive the rows they were counted from, and a scrape must not read a long
-- history: up to position `metrics_folded` of the stream everything is summed up in metric_rollup,
-- the rest is summed up by whoever looks, from the same view.

-- How far upwards each bucket of a histogram reaches; the last one has no end.
CREATE TABLE metric_buckets (upto_ms INTEGER PRIMARY KEY) STRICT;
INSERT INTO metric_buckets (upto_ms) VALUES
    (10), (50), (100), (250), (500), (1000), (2500), (5000), (10000), (30000), (60000), (300000),
    (900000), (3600000), (14400000), (86400000), (9223372036854775807);

-- The queues and kinds that have series of their own, so that these are never too many.
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

INSERT INTO counters (name, value) VALUES ('metrics_folded', 0), ('metrics_fold_upto', 0);

-- When tasks that were delayed at their enqueue fell due first: `not_before` tells it only until they
-- come back, and what was counted once must not be counted as something else later.
CREATE TABLE task_dues (
    task_seq INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    due_at   INTEGER NOT NULL
) STRICT;

INSERT INTO task_dues (task_seq, due_at)
SELECT seq, not_before FROM tasks
WHERE status = 'pending' AND parked = 'delay' AND token = 0;

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

-- Serving processes sum up now and then, from what they have read. Whoever removes rows sums up
-- what is left on the spot, by setting `metrics_fold_upto`.
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

-- Tasks that never moved have nothing to sum up.
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

-- Where tasks came from and who was at them last, in the words of W3C Trace Context; only tasks
-- that somebody traces have a row.
CREATE TABLE task_traces (
    task_seq            INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    traceparent         TEXT,
    tracestate          TEXT,
    attempt_traceparent TEXT
) STRICT;

-- The audit item by item: each task and each lock that anyone but its holder has moved.
CREATE INDEX idx_transitions_acts ON transitions (pos) WHERE actor <> 'worker';

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
