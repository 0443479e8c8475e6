"""The whole content of a store at one moment, told by a foreign tool from a copy of its files.

A copy, because a foreign tool that opens a crashed store replays and removes the log: what the
dead process left must still be there for Outlast to deal with.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.kill.state import CONTENT, State
from tests.support.invariants import INVARIANTS


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
