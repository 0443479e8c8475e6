"""The whole content of a store at one moment, told by a foreign tool from a copy of its files.

A copy, because a foreign tool that opens a crashed store replays and removes the log: what the
dead process left must still be there for Outlast to deal with.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.foreign import INVARIANTS

State = dict[str, list[list[Any]] | None]

# Ids made by the library, error texts with pids in them, and the clock of the machine are left
# out; all else must be the same in every run of the same life.
CONTENT = {
    "tasks": """
        SELECT seq, coalesce('clone of ' || retry_of, id), status, queue, kind, priority, group_id,
               parked, not_before, stage, attempt, retry_count, recovery_count, max_retries,
               max_recoveries, token, holder, worker_id, last_worker_id, lease_acquired_at,
               lease_expires_at, lease_expires_mono_ms, heartbeat_at, unstarted, keyed, created_at,
               started_at, state_changed_at, completed_at, payload_bytes, payload, result_bytes,
               result, error IS NULL
        FROM tasks ORDER BY seq""",
    "transitions": """
        SELECT pos, task_seq, from_status, to_status, actor, reason, attempt, token, worker_id,
               error IS NULL, at
        FROM transitions ORDER BY pos""",
    "checkpoints": """
        SELECT pos, task_seq, group_id, checkpoint_type, sequence_number, attempt, snapshot_data,
               snapshot_sum, metadata, created_at
        FROM task_checkpoints ORDER BY pos""",
    "keys": "SELECT * FROM task_keys ORDER BY idempotency_key",
    "blobs": "SELECT task_seq, part, length(data) FROM blobs ORDER BY task_seq, part",
    "groups": "SELECT * FROM groups ORDER BY id",
    "queues": "SELECT * FROM queues ORDER BY name",
    "workers": "SELECT seq, name, state, registered_at, ended_at FROM workers ORDER BY seq",
    "meta": "SELECT * FROM meta ORDER BY key",
    "the caller's own rows": "SELECT * FROM ledger ORDER BY rowid",
    "migrations": "SELECT number, name, checksum FROM migrations ORDER BY number",
    "schema": "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name",
}


def state_by(fetch: Callable[[str], list[Any] | None]) -> State:
    """The content as a fetching function tells it; None for a table that is not there."""
    return {name: _plain(fetch(query)) for name, query in CONTENT.items()}


def _plain(rows: list[Any] | None) -> list[list[Any]] | None:
    return None if rows is None else [list(row) for row in rows]


class Snapshot(NamedTuple):
    """What the foreign tool found: the content, every id, and what is wrong with the file."""

    state: State
    statuses: dict[str, str]
    faults: dict[str, list[list[Any]]]


def foreign_snapshot(database: Path) -> Snapshot:
    """Copy database and log in another process, read the copy with another SQLite there."""
    queries = {"content": CONTENT, "statuses": "SELECT id, status FROM tasks", "checks": CHECKS}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(database), json.dumps(queries)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    faults = {name: rows for name, rows in told["checks"].items() if rows not in ([], [["ok"]])}
    return Snapshot(told["content"], dict(told["statuses"] or []), faults)


CHECKS = INVARIANTS | {
    "no page is damaged": "PRAGMA integrity_check",
    "no link dangles": "PRAGMA foreign_key_check",
}

_PROGRAM = """
import json, os, shutil, sqlite3, sys, tempfile

def rows(query):
    try:
        return connection.execute(query).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise

queries = json.loads(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    for name in (sys.argv[1], sys.argv[1] + "-wal"):
        if os.path.exists(name):
            shutil.copy(name, os.path.join(folder, os.path.basename(name)))
    copy = os.path.join(folder, os.path.basename(sys.argv[1]))
    connection = sqlite3.connect(copy, isolation_level=None)
    told = {
        "content": {name: rows(query) for name, query in queries["content"].items()},
        "statuses": rows(queries["statuses"]),
        "checks": {name: rows(query) or [] for name, query in queries["checks"].items()},
    }
    connection.close()
print(json.dumps(told))
"""
