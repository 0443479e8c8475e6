-- Each opening to serve is a run: what it found and did, and the mirror of its session marker.
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
    CONSTRAINT run_previous CHECK (
        CASE previous WHEN 'clean' THEN 1 WHEN 'unclean' THEN 1 WHEN 'none' THEN 1
                      WHEN 'in use' THEN 1 ELSE 0 END)
) STRICT;

-- What happened and is no task's move. Its positions are drawn from the counter of transitions, so
-- that both are one ordered stream.
CREATE TABLE events (
    pos         INTEGER PRIMARY KEY,
    kind        TEXT NOT NULL,
    incarnation TEXT,
    worker_id   TEXT,
    run_id      INTEGER,
    data        TEXT NOT NULL DEFAULT '{}',
    at          INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_events_kind ON events (kind, pos);

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- Which run moved the task; the report derives its list from it.
ALTER TABLE transitions ADD COLUMN run_id INTEGER;
CREATE INDEX idx_transitions_run ON transitions (run_id, pos) WHERE run_id IS NOT NULL;

-- What a worker had used at its last beat, and how often the kernel had run out of memory when it
-- registered: what can be known of its death afterwards.
ALTER TABLE workers ADD COLUMN peak_memory_bytes INTEGER;
ALTER TABLE workers ADD COLUMN oom_kills INTEGER;

-- Hardly any task is ever in here, so hardly any pays for it.
CREATE INDEX idx_tasks_recovered ON tasks (recovery_count) WHERE recovery_count > 1;

DROP VIEW task_situations;

CREATE VIEW task_situations AS
SELECT t.seq, t.id, t.status, t.attempt, t.retry_count, t.recovery_count, t.max_retries,
       t.max_recoveries, t.token, t.holder, t.worker_id, t.unstarted, t.keyed,
       t.state_changed_at, t.lease_expires_at, t.lease_expires_mono_ms, t.kind, t.heartbeat_at
FROM tasks t;
