"""A second opinion: the database as another program in another process sees it.

The standard library's sqlite3 is a second copy of SQLite, which must never touch a store inside
a process that has it open; in a process of its own it is the foreign tool our checks need.
"""

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.support.recovery_validator import STUCK, seen

_PROGRAM = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
rows = connection.execute(sys.argv[2], json.loads(sys.argv[3])).fetchall()
print(json.dumps(rows))
"""


def foreign_rows(database: Path, query: str, values: tuple[Any, ...] = ()) -> list[list[Any]]:
    """The rows of a query, read by a foreign tool in another process."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(database), query, json.dumps(list(values))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise ForeignError(done.stderr.strip().splitlines()[-1])
    rows: list[list[Any]] = json.loads(done.stdout)
    return rows


class ForeignError(Exception):
    """The foreign tool refused; its last line of complaint."""


def foreign_statuses(database: Path) -> dict[str, str]:
    """The status of every task by id."""
    rows: list[Any] = foreign_rows(database, "SELECT id, status FROM tasks")
    return dict(rows)


def assert_sound(database: Path, left: Collection[str] = (), deleted: int = 0) -> None:
    """No damage, every row as the invariants want it, no task lost, and none with the dead.

    Tasks are numbered on and on, so those that are there must be as many as were ever made, but
    for the `deleted`. What is `left` with the dead was taken back by nobody yet.
    """
    now = seen(database)
    found = [f"{name}: {rows[:3]}" for name, rows in now.faults.items()]
    found += [STUCK.format(one) for one in sorted(now.stuck.difference(left))]
    found += [f"task {one} is not with the dead" for one in set(left) - now.stuck]
    if now.numbered != len(now.tasks) + deleted:
        found.append(f"{now.numbered} tasks were made, and {len(now.tasks)} are there")
    assert not found, "; ".join(found[:5])
