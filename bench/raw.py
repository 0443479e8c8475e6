"""Raw: what bare apsw reaches with the same tables, indexes and log rows, and nothing else.

The yardstick of every ratio, written with the one aim of being fast: no checks, no triggers, no
STRICT, no foreign keys, no library; rows are ready-made tuples before the clock starts, statements
stay prepared, batches go by carray. As durable as ours: WAL, synchronous=FULL, one commit for each
operation that our interface makes durable, flushed by SQLite itself every thousand pages. A test
compares columns and indexes with those of a real store.
"""

import time
from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

SCHEMA = """
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL DEFAULT 'pending', queue TEXT NOT NULL, kind TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0, group_id TEXT, parked TEXT, not_before INTEGER,
    stage TEXT, attempt INTEGER NOT NULL DEFAULT 0, retry_count INTEGER NOT NULL DEFAULT 0,
    recovery_count INTEGER NOT NULL DEFAULT 0, crashes_in_row INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL DEFAULT 3, max_recoveries INTEGER,
    token INTEGER NOT NULL DEFAULT 0, holder INTEGER,
    worker_id TEXT, last_worker_id TEXT, lease_acquired_at INTEGER, lease_expires_at INTEGER,
    lease_expires_mono_ms INTEGER, heartbeat_at INTEGER, unstarted INTEGER NOT NULL DEFAULT 0,
    keyed INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, started_at INTEGER,
    state_changed_at INTEGER NOT NULL, touched_at INTEGER, completed_at INTEGER, retry_of TEXT,
    payload_bytes INTEGER NOT NULL DEFAULT 0, payload_sum INTEGER NOT NULL,
    result_bytes INTEGER NOT NULL DEFAULT 0, result_sum INTEGER, error TEXT, payload TEXT,
    result TEXT, held_by_recovery INTEGER
);
CREATE TABLE transitions (
    pos INTEGER PRIMARY KEY AUTOINCREMENT, task_seq INTEGER NOT NULL, from_status TEXT NOT NULL,
    to_status TEXT NOT NULL, actor TEXT NOT NULL, reason TEXT NOT NULL, attempt INTEGER NOT NULL,
    token INTEGER NOT NULL, worker_id TEXT, error TEXT, at INTEGER NOT NULL,
    exit_signal INTEGER, peak_memory_bytes INTEGER, run_id INTEGER, parked TEXT
);
CREATE INDEX idx_work_items_status_priority ON tasks (queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;
CREATE INDEX idx_tasks_ready_by_kind ON tasks (queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL;
CREATE INDEX idx_tasks_ready_by_group ON tasks (group_id, queue, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;
CREATE INDEX idx_tasks_ready_by_group_kind ON tasks (group_id, queue, kind, priority DESC, seq)
    WHERE status = 'pending' AND parked IS NULL AND group_id IS NOT NULL;
CREATE INDEX idx_tasks_due ON tasks (not_before) WHERE status = 'pending' AND parked = 'delay';
CREATE INDEX idx_work_items_lease_expiry ON tasks (lease_expires_mono_ms)
    WHERE status = 'running';
CREATE INDEX idx_work_items_lease_holder ON tasks (holder, status) WHERE holder IS NOT NULL;
CREATE INDEX idx_work_items_task ON tasks (group_id, status, created_at DESC)
    WHERE group_id IS NOT NULL;
CREATE INDEX idx_jobs_status_updated ON tasks (status, completed_at, queue)
    WHERE completed_at IS NOT NULL;
CREATE INDEX idx_tasks_parked ON tasks (queue, group_id)
    WHERE status = 'pending' AND parked IS NOT NULL AND parked <> 'delay';
CREATE INDEX idx_tasks_recovered ON tasks (recovery_count) WHERE recovery_count > 1;
CREATE INDEX idx_transitions_task ON transitions (task_seq);
CREATE INDEX idx_transitions_run ON transitions (run_id, pos) WHERE run_id IS NOT NULL;
CREATE INDEX idx_transitions_acts ON transitions (pos) WHERE actor <> 'worker';
"""

ADD = """
INSERT INTO tasks (id, queue, kind, priority, group_id, parked, not_before, max_retries,
                   max_recoveries, keyed, created_at, state_changed_at, retry_of, payload_bytes,
                   payload_sum, payload)
VALUES (?, 'default', ?, 0, NULL, NULL, NULL, 3, NULL, 0, ?, ?, NULL, ?, ?, ?)
"""
PICK = """
SELECT seq, id, kind, attempt, token, payload
FROM tasks INDEXED BY idx_work_items_status_priority
WHERE status = 'pending' AND parked IS NULL AND queue = 'default'
ORDER BY priority DESC, seq LIMIT 100
"""
START = """
UPDATE tasks SET
    status = 'running', holder = 1, worker_id = 'w', last_worker_id = 'w', token = token + 1,
    attempt = attempt + 1, unstarted = 0, lease_acquired_at = ?2, lease_expires_at = ?2 + 300000,
    lease_expires_mono_ms = ?3, heartbeat_at = ?2, started_at = ?2, state_changed_at = ?2
WHERE seq IN carray(?1)
"""
COMPLETE = """
UPDATE tasks SET
    status = 'completed', holder = NULL, worker_id = NULL, lease_acquired_at = NULL,
    lease_expires_at = NULL, lease_expires_mono_ms = NULL, heartbeat_at = NULL, unstarted = 0,
    completed_at = ?2, state_changed_at = ?2
WHERE seq IN carray(?1)
"""
COMPLETE_EACH = """
UPDATE tasks SET
    status = 'completed', holder = NULL, worker_id = NULL, lease_acquired_at = NULL,
    lease_expires_at = NULL, lease_expires_mono_ms = NULL, heartbeat_at = NULL, unstarted = 0,
    result = ?3, result_bytes = ?4, result_sum = 123456789, completed_at = ?2,
    state_changed_at = ?2
WHERE seq = ?1
"""
LOG_START = """
INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, at)
SELECT value, 'pending', 'running', 'worker', 'claimed', 1, 1, 'w', ?2 FROM carray(?1)
"""
LOG_COMPLETE = """
INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, at)
SELECT value, 'running', 'completed', 'worker', 'completed', 1, 1, 'w', ?2 FROM carray(?1)
"""
HELD = """
SELECT seq FROM tasks INDEXED BY idx_work_items_lease_holder
WHERE holder = 1 AND status = 'running' LIMIT ?
"""
PUT_BACK = """
UPDATE tasks SET
    status = 'pending', holder = NULL, worker_id = NULL, lease_acquired_at = NULL,
    lease_expires_at = NULL, lease_expires_mono_ms = NULL, heartbeat_at = NULL, unstarted = 0,
    recovery_count = recovery_count + 1, crashes_in_row = crashes_in_row + 1,
    error = ?3, state_changed_at = ?2
WHERE seq IN carray(?1)
"""
LOG_PUT_BACK = """
INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,
                         worker_id, error, at, run_id)
SELECT value, 'running', 'pending', 'system/recovery', 'crash_retry', 1, 1, 'w', ?3, ?2, 1
FROM carray(?1)
"""
DIED = (
    "worker w (pid 12345) died while running this task of kind ingest: its lock is free,"
    " peak 31.9 MiB"
)

CACHE_KIB = 64 << 10
# A quarter faster than one at a time (3.5 µs of processor time a row against 4.7; 8, 512: slower).
ROWS_AT_ONCE = 128
# The fastest that keeps a write lock under 100 ms (64 ms here; 20,000 took 110 to 130).
PUT_BACK_AT_ONCE = 10_000

Task = tuple[Any, ...]


def connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "FULL")
    connection.pragma("cache_size", -CACHE_KIB)
    connection.wal_autocheckpoint(1000)
    return connection


def make_store(path: Path) -> apsw.Connection:
    connection = connect(path)
    connection.execute(SCHEMA)
    return connection


def rows(ids: Sequence[str], kind: str, payload: str) -> list[Task]:
    """What ADD binds, ready-made."""
    now = time.time_ns() // 1_000_000
    return [(one, kind, now, now, len(payload), 123456789, payload) for one in ids]


def add_singly(connection: apsw.Connection, tasks: Sequence[Task]) -> None:
    """Each in a transaction of its own, durable before the next begins."""
    execute = connection.cursor().execute
    for task in tasks:
        execute(ADD, task)


def bundled(tasks: Sequence[Task]) -> list[Task]:
    """What statements of many rows bind, ready-made."""
    return [
        tuple(chain.from_iterable(tasks[first : first + ROWS_AT_ONCE]))
        for first in range(0, len(tasks), ROWS_AT_ONCE)
    ]


def add_at_once(connection: apsw.Connection, bundles: Sequence[Task]) -> None:
    """All in one transaction."""
    execute = connection.cursor().execute
    head, row = ADD.strip().split("VALUES ")
    columns = row.count("?")
    execute("BEGIN IMMEDIATE")
    for bundle in bundles:
        execute(f"{head}VALUES {', '.join([row] * (len(bundle) // columns))}", bundle)
    execute("COMMIT")


def work_off(connection: apsw.Connection, result: str | None = None) -> int:
    """Claim a hundred durably, complete them durably, until nothing is left.

    Without results the completions are one set; with a result each row has its own statement.
    """
    cursor = connection.cursor()
    execute = cursor.execute
    done = 0
    while True:
        now = time.time_ns() // 1_000_000
        execute("BEGIN IMMEDIATE")
        claimed = execute(PICK).fetchall()
        if not claimed:
            execute("COMMIT")
            return done
        seqs = apsw.carray(array("q", [row[0] for row in claimed]))
        execute(START, (seqs, now, now + 300_000))
        execute(LOG_START, (seqs, now))
        execute("COMMIT")
        execute("BEGIN IMMEDIATE")
        if result is None:
            execute(COMPLETE, (seqs, now))
        else:
            size = len(result)
            cursor.executemany(COMPLETE_EACH, [(row[0], now, result, size) for row in claimed])
        execute(LOG_COMPLETE, (seqs, now))
        execute("COMMIT")
        done += len(claimed)


def put_back(connection: apsw.Connection) -> int:
    """Take everything that holder 1 runs from it, in batches that hold no lock for long."""
    execute = connection.cursor().execute
    done = 0
    while True:
        now = time.time_ns() // 1_000_000
        execute("BEGIN IMMEDIATE")
        held = [row[0] for row in execute(HELD, (PUT_BACK_AT_ONCE,))]
        if held:
            seqs = apsw.carray(array("q", held))
            execute(PUT_BACK, (seqs, now, DIED))
            execute(LOG_PUT_BACK, (seqs, now, DIED))
        execute("COMMIT")
        done += len(held)
        if len(held) < PUT_BACK_AT_ONCE:
            return done
