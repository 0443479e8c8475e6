-- The tables. Times are integer milliseconds UTC; *_mono_ms are milliseconds of the host's
-- monotonic clock, comparable only between processes of one boot.

CREATE TABLE migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    checksum   TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    id         TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
    name      TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each name a process claims under. All rows of one process share its incarnation,
-- its lock file and its fate; rows of the dead are kept.
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
    UNIQUE (incarnation, name),
    CONSTRAINT worker_state CHECK (
        CASE state WHEN 'alive' THEN ended_at IS NULL
                   WHEN 'left' THEN ended_at IS NOT NULL
                   WHEN 'dead' THEN ended_at IS NOT NULL
                   ELSE 0 END)
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
    recovery_count        INTEGER NOT NULL DEFAULT 0,
    max_retries           INTEGER NOT NULL DEFAULT 3,
    max_recoveries        INTEGER NOT NULL DEFAULT 3,
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
        AND recovery_count >= 0 AND recovery_count <= max_recoveries
        AND attempt >= 0 AND attempt <= 1 + max_retries + max_recoveries)
) STRICT;

-- Payloads and results above 2 KiB: an update of a row rewrites all of the row's pages.
CREATE TABLE blobs (
    task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    part     TEXT NOT NULL,
    data     TEXT NOT NULL,
    PRIMARY KEY (task_seq, part)
) STRICT;

-- Append-only, one row a move; doubles as the outbox of task events. Its AUTOINCREMENT counter
-- never falls and is the one counter of the whole event stream.
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
    at          INTEGER NOT NULL
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

CREATE TABLE locks (
    name            TEXT PRIMARY KEY,
    holder          INTEGER REFERENCES workers (seq),
    worker_id       TEXT NOT NULL,
    token           INTEGER NOT NULL,
    acquired_at     INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    expires_mono_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
