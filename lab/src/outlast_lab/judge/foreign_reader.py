"""What a store's file holds, told by a reader that shares no code with Outlast.

The reader is the standard library's sqlite3: another build of SQLite, and a second copy of it,
which must never touch a store inside a process that has it open. So a store that somebody may have
open is copied and read in another process; only files that are nobody's are read in this one.
"""

import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
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
           t.crashes_in_row, t.max_retries, t.max_recoveries, t.token, t.holder, t.worker_id,
           t.keyed, t.retry_of, t.payload_bytes, t.payload_sum, t.result_bytes, t.result_sum,
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
    crashes_in_row: int
    max_retries: int
    max_recoveries: int | None
    """None: as the settings of whoever recovers it say."""
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
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as one:

            def fetch(query: str) -> Rows:
                return one.execute(query).fetchall()

            bare = bare_rows(fetch) if with_content else Stored(faults=_faults(fetch))
            stored = content_of(fetch)
    except sqlite3.DatabaseError as error:
        return Stored(faults={UNREADABLE: [[str(error)]]})
    stored.content, stored.faults = bare.content, bare.faults
    return stored


@contextmanager
def copied(path: Path, elsewhere: str | None = None) -> Iterator[Path]:
    """A copy of database and log that a foreign tool may open and change.

    What a dead process left must still be there for Outlast to deal with. Nobody in this process
    may have the store open, for a copy would drop the locks.
    """
    with tempfile.TemporaryDirectory(dir=elsewhere or path.parent) as folder:
        for name in (path.name, f"{path.name}-wal"):
            with suppress(FileNotFoundError):
                shutil.copy(path.with_name(name), Path(folder) / name)
        yield Path(folder) / path.name


def copied_stored(path: Path, with_content: bool = False, elsewhere: str | None = None) -> Stored:
    """Read a copy and leave the file as it is; where there is none, nothing is stored."""
    with copied(path, elsewhere) as copy:
        return read_stored(copy, with_content) if copy.exists() else Stored()


def bare_rows(fetch: Fetch) -> Stored:
    """All rows as they are, and the faults: enough to see whether the content is known."""
    names = sorted(_tables(fetch))
    return Stored(
        content={name: fetch(_ALL_OF + f'"{name}"') for name in names}, faults=_faults(fetch)
    )


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
    arguments = [sys.executable, "-c", _PROGRAM, str(path), "content" if with_content else ""]
    done = subprocess.run(arguments, capture_output=True, timeout=_PATIENCE_SECONDS, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Stored(faults={UNREADABLE: [last]})
    stored: Stored = pickle.loads(done.stdout)
    return stored


# The copy lies elsewhere, for whoever has the store open may look at its folder.
_PROGRAM = """
import pickle, sys, tempfile
from pathlib import Path
from outlast_lab.judge.foreign_reader import copied_stored
found = copied_stored(Path(sys.argv[1]), bool(sys.argv[2]), tempfile.gettempdir())
sys.stdout.buffer.write(pickle.dumps(found))
"""
