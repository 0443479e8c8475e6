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
-- creation it was told, since creations have no row of their own there.
CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    pos        INTEGER NOT NULL,
    task_seq   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    moved_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Numbers that only rise: what no row would show afterwards.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
