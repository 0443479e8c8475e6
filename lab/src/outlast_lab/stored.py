"""What a store's file holds, told by a reader that shares no code with Outlast.

The reader is the standard library's sqlite3: another build of SQLite, and a second copy of it,
which must never touch a store inside a process that has it open. So a store that somebody may have
open is copied and read in another process; only files that are nobody's are read in this one.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Rows = list[Any]
Fetch = Callable[[str], Rows]

UNREADABLE = "the file can be read"
"""The fault of a file that no reader can make sense of."""

_PATIENCE_SECONDS = 60


TASKS = """
    SELECT t.id, t.seq, t.status, t.kind, t.parked, t.attempt, t.retry_count, t.recovery_count,
           t.max_retries, t.max_recoveries, t.token, t.holder, t.worker_id, t.keyed, t.retry_of,
           t.payload_bytes, t.payload_sum, t.result_bytes, t.result_sum,
           coalesce(t.payload, p.data), coalesce(t.result, r.data), t.queue, t.priority, t.group_id,
           t.created_at
    FROM tasks t
    LEFT JOIN blobs p ON p.task_seq = t.seq AND p.part = 'payload'
    LEFT JOIN blobs r ON r.task_seq = t.seq AND r.part = 'result'"""
MOVES = """
    SELECT task_seq, from_status, to_status, actor, reason, attempt, token, worker_id, at, pos,
           error
    FROM transitions ORDER BY pos"""
CHECKPOINTS = """
    SELECT task_seq, checkpoint_type, sequence_number, attempt, snapshot_data, snapshot_sum
    FROM task_checkpoints ORDER BY pos"""
_ALL_OF = "SELECT * FROM "
KEYS = "SELECT idempotency_key, task_id, status, expires_at - created_at FROM task_keys"
PAUSED = "SELECT name FROM queues"
LOCKS = "SELECT name, worker_id, token FROM locks"
LOCK_TOKEN = "SELECT value FROM counters WHERE name = 'lock_token'"
POSITIONS = "SELECT pos FROM transitions UNION ALL SELECT pos FROM events"
EVENTS = "SELECT pos, kind, incarnation, run_id, data FROM events ORDER BY pos"
EVENT_TASKS = "SELECT pos, task_seq FROM events WHERE task_seq IS NOT NULL"
COUNTERS = "SELECT name, seq FROM sqlite_sequence"
CURSORS = "SELECT name, pos, task_seq FROM cursors"
AUDIT = "SELECT id, actor, source, action, status, subject, run_id, data FROM audit ORDER BY id"
RUNS = "SELECT id, trigger, completed_at, put_back, failed FROM recovery_runs ORDER BY id"
# Asks for the runs first: in a store that was not migrated so far, neither they nor the column are.
MOVED_BY_RUNS = """
    SELECT t.pos, t.run_id FROM transitions t LEFT JOIN recovery_runs r ON r.id = t.run_id
    WHERE t.run_id IS NOT NULL"""
WORKERS = "SELECT seq, incarnation, name, state FROM workers ORDER BY seq"


class StoredTask(NamedTuple):
    """A task's row, with payload and result wherever they lie."""

    id: str
    seq: int
    status: str
    kind: str
    parked: str | None
    attempt: int
    retry_count: int
    recovery_count: int
    max_retries: int
    max_recoveries: int
    token: int
    holder: int | None
    worker_id: str | None
    keyed: int
    retry_of: str | None
    payload_bytes: int
    payload_sum: int
    result_bytes: int
    result_sum: int | None
    payload: str | None
    result: str | None
    queue: str = "default"
    priority: int = 0
    group: str | None = None
    created_at: int = 0


class Move(NamedTuple):
    """A transition."""

    from_status: str
    to_status: str
    actor: str
    reason: str
    attempt: int
    token: int
    worker: str | None
    at: int | None = None
    pos: int = 0
    error: str | None = None


class StoredRun(NamedTuple):
    """One recovery that was put on record."""

    id: int
    trigger: str
    completed_at: int | None
    put_back: int
    failed: int


class StoredEvent(NamedTuple):
    """What happened and is no task's move."""

    pos: int
    kind: str
    incarnation: str | None
    run_id: int | None
    data: str


class StoredAct(NamedTuple):
    """An entry of the audit."""

    id: int
    actor: str
    source: str
    action: str
    status: str
    subject: str | None
    run_id: int | None
    data: str


class StoredWorker(NamedTuple):
    """A worker's row."""

    seq: int
    incarnation: str
    name: str
    state: str


class StoredCheckpoint(NamedTuple):
    """A record of progress."""

    type: str
    number: int
    attempt: int
    data: str
    sum: str


class StoredKey(NamedTuple):
    """An idempotency key."""

    key: str
    task_id: str | None
    status: str
    lasts_ms: int


class StoredLock(NamedTuple):
    """A named lock."""

    name: str
    holder: str
    token: int


@dataclass(slots=True)
class Stored:
    """The content of a store, and what is wrong with its file."""

    tasks: dict[str, StoredTask] = field(default_factory=dict)
    moves: dict[str, list[Move]] = field(default_factory=lambda: defaultdict(list))
    checkpoints: dict[str, list[StoredCheckpoint]] = field(
        default_factory=lambda: defaultdict(list)
    )
    keys: dict[str, StoredKey] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    locks: dict[str, StoredLock] = field(default_factory=dict)
    lock_token: int = 0
    positions: list[int] = field(default_factory=list)
    events: list[StoredEvent] = field(default_factory=list)
    event_tasks: dict[int, int] = field(default_factory=dict)
    """The task an event is about, by the event's position."""
    counters: dict[str, int] = field(default_factory=dict)
    cursors: list[tuple[str, int, int]] = field(default_factory=list)
    audit: list[StoredAct] | None = None
    """None in a store that keeps none yet."""
    runs: dict[int, StoredRun] | None = None
    """None in a store that knows no runs yet."""
    moved_by_runs: dict[int, int] = field(default_factory=dict)
    """The run that made a move, by the move's position."""
    workers: dict[int, StoredWorker] = field(default_factory=dict)
    faults: dict[str, Rows] = field(default_factory=dict)
    content: dict[str, Rows] = field(default_factory=dict)

    def statuses(self) -> dict[str, str]:
        """The status of every task by its id."""
        return {task.id: task.status for task in self.tasks.values()}


def read_stored(path: Path | str, with_content: bool = False) -> Stored:
    """Read a file that nobody in this process has open; it may be changed by being opened."""
    uri = f"{Path(path).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as one:
        return told_by(lambda query: one.execute(query).fetchall(), with_content)


def copied_stored(path: Path, with_content: bool = False) -> Stored:
    """Read a copy of a file that nobody in this process has open, and leave the file as it is."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for name in (path.name, f"{path.name}-wal"):
            with suppress(FileNotFoundError):
                shutil.copy(path.with_name(name), Path(folder) / name)
        try:
            return read_stored(Path(folder) / path.name, with_content)
        except sqlite3.DatabaseError as error:
            return _unreadable(error)


def told_by(fetch: Fetch, with_content: bool = False) -> Stored:
    """The content and the faults, as a function tells them that runs queries."""
    try:
        bare = bare_rows(fetch) if with_content else Stored(faults=_faults(fetch))
        stored = content_of(fetch)
    except sqlite3.DatabaseError as error:
        return _unreadable(error)
    stored.content, stored.faults = bare.content, bare.faults
    return stored


def bare_rows(fetch: Fetch) -> Stored:
    """All rows as they are, and the faults: enough to see whether the content is known."""
    names = sorted(_tables(fetch))
    return Stored(
        content={name: fetch(_ALL_OF + f'"{name}"') for name in names}, faults=_faults(fetch)
    )


def _unreadable(error: sqlite3.DatabaseError) -> Stored:
    return Stored(faults={UNREADABLE: [[str(error)]]})


def _tables(fetch: Fetch) -> set[str]:
    return {name for (name,) in fetch("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def content_of(fetch: Fetch) -> Stored:
    """What the rows mean; whether the file is sound is not asked."""
    names = _tables(fetch)
    stored = Stored()
    if "tasks" in names:
        rows = [StoredTask(*row) for row in fetch(TASKS)]
        ids = {row.seq: row.id for row in rows}
        stored.tasks = {row.id: row for row in rows}
        for seq, *rest in fetch(MOVES):
            stored.moves[ids.get(seq, f"no task {seq}")].append(Move(*rest))
        for seq, *rest in fetch(CHECKPOINTS):
            stored.checkpoints[ids.get(seq, f"no task {seq}")].append(StoredCheckpoint(*rest))
        stored.keys = {row[0]: StoredKey(*row) for row in fetch(KEYS)}
        stored.paused = {name for (name,) in fetch(PAUSED)}
        stored.locks = {row[0]: StoredLock(*row) for row in fetch(LOCKS)}
    if "recovery_runs" in names:
        stored.runs = {row[0]: StoredRun(*row) for row in fetch(RUNS)}
        stored.events = [StoredEvent(*row) for row in fetch(EVENTS)]
        stored.moved_by_runs = dict(fetch(MOVED_BY_RUNS))
        stored.workers = {row[0]: StoredWorker(*row) for row in fetch(WORKERS)}
        stored.counters = dict(fetch(COUNTERS))
    if "counters" in names:
        stored.lock_token = max((value for (value,) in fetch(LOCK_TOKEN)), default=0)
    if "cursors" in names:
        stored.positions = [pos for (pos,) in fetch(POSITIONS)]
        stored.event_tasks = dict(fetch(EVENT_TASKS))
        stored.cursors = [(name, pos, seq) for name, pos, seq in fetch(CURSORS)]
        stored.audit = [StoredAct(*row) for row in fetch(AUDIT)]
    return stored


def _faults(fetch: Fetch) -> dict[str, Rows]:
    found = {
        "no page is damaged": fetch("PRAGMA integrity_check"),
        "no link dangles": fetch("PRAGMA foreign_key_check"),
    }
    return {name: rows for name, rows in found.items() if [list(row) for row in rows] not in _SOUND}


_SOUND: tuple[Rows, ...] = ([], [["ok"]])


def foreign_stored(path: Path, with_content: bool = False) -> Stored:
    """Read a copy of database and log in another process, whoever has the store open."""
    arguments = [sys.executable, "-c", _PROGRAM, str(path), json.dumps(_queries())]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return Stored(faults={UNREADABLE: [last]})
    told = json.loads(done.stdout)

    def fetch(query: str) -> Rows:
        if query not in told:
            raise KeyError(query)
        return [tuple(row) for row in told[query]]

    return told_by(fetch, with_content)


def _queries() -> list[str]:
    return [
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
        TASKS, MOVES, CHECKPOINTS, KEYS, PAUSED, LOCKS, LOCK_TOKEN, POSITIONS, EVENTS, EVENT_TASKS,
        COUNTERS, CURSORS, AUDIT, RUNS, MOVED_BY_RUNS, WORKERS,
        "PRAGMA integrity_check", "PRAGMA foreign_key_check",
    ]  # fmt: skip


# The queries that fail for want of a table are not asked for either: told_by() looks first. What
# is no text, number or null cannot pass through JSON and stands in no table of ours.
_PROGRAM = """
import json, os, shutil, sqlite3, sys, tempfile
queries = json.loads(sys.argv[2])
told = {}
with tempfile.TemporaryDirectory() as folder:
    for name in (sys.argv[1], sys.argv[1] + "-wal"):
        if os.path.exists(name):
            shutil.copy(name, os.path.join(folder, os.path.basename(name)))
    copy = os.path.join(folder, os.path.basename(sys.argv[1]))
    connection = sqlite3.connect(copy, isolation_level=None)
    tables = [name for (name,) in connection.execute(queries[0])]
    for query in queries + [f'SELECT * FROM "{name}"' for name in tables]:
        try:
            told[query] = connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
    connection.close()
print(json.dumps(told, default=repr))
"""
