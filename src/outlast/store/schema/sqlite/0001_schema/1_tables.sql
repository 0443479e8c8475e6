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

-- Payloads and results above 2 KiB: an update of a row rewrites all of the row's pages.
CREATE TABLE blobs (
    task_seq INTEGER NOT NULL REFERENCES tasks (seq) ON DELETE CASCADE,
    part     TEXT NOT NULL,
    data     TEXT NOT NULL,
    PRIMARY KEY (task_seq, part)
) STRICT;

-- When tasks that were delayed at their enqueue fell due first: `not_before` tells it only until they
-- come back, and what was counted once must not be counted as something else later.
CREATE TABLE task_dues (
    task_seq INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    due_at   INTEGER NOT NULL
) STRICT;

-- Where tasks came from and who was at them last, in the words of W3C Trace Context; only tasks
-- that somebody traces have a row.
CREATE TABLE task_traces (
    task_seq            INTEGER PRIMARY KEY REFERENCES tasks (seq) ON DELETE CASCADE,
    traceparent         TEXT,
    tracestate          TEXT,
    attempt_traceparent TEXT
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
    at          INTEGER NOT NULL,
    -- How an attempt in a process of its own ended.
    exit_signal INTEGER,
    peak_memory_bytes INTEGER,
    -- Which run moved the task; the report of recovery derives its list from it.
    run_id      INTEGER,
    -- For what the task was parked by the move, if it was: only so does the stream tell of a hold.
    parked      TEXT
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
    expires_mono_ms INTEGER NOT NULL,
    -- A lock may go with a lease: then it is held as long as that lease, and ends with it.
    task_seq        INTEGER,
    task_token      INTEGER
) STRICT, WITHOUT ROWID;

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
    -- Whether it has anything to tell, so that the newest such is found among the empty ones.
    has_findings  INTEGER NOT NULL DEFAULT 0,
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
    at          INTEGER NOT NULL,
    -- Some events are about one task, such as its parking, and come after its creation.
    task_seq    INTEGER,
    task_id     TEXT
) STRICT;

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

-- Numbers that only rise: what no row would show afterwards.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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
