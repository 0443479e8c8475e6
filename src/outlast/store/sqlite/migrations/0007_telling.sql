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
-- it was told that parts are gone.
CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    pos        INTEGER NOT NULL,
    task_seq   INTEGER NOT NULL,
    forgotten  INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    moved_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Some events are about one task, such as its parking, and come after its creation.
ALTER TABLE events ADD COLUMN task_seq INTEGER;
ALTER TABLE events ADD COLUMN task_id TEXT;

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
