"""A second opinion: the database as another program in another process sees it.

The standard library's sqlite3 is a second copy of SQLite, which must never touch a store inside
a process that has it open; in a process of its own it is the foreign tool our checks need.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def assert_sound(database: Path) -> None:
    """No damage, no dangling links, and every row as the invariants want it."""
    assert foreign_rows(database, "PRAGMA integrity_check") == [["ok"]]
    assert foreign_rows(database, "PRAGMA foreign_key_check") == []
    for name, query in INVARIANTS.items():
        assert foreign_rows(database, query) == [], name


INVARIANTS = {
    "running pairs with its lease": """
        SELECT id FROM tasks WHERE (status = 'running') <> (holder IS NOT NULL)
           OR (status = 'running') <> (lease_expires_at IS NOT NULL)""",
    "counters stay within their limits": """
        SELECT id FROM tasks WHERE retry_count > max_retries OR recovery_count > max_recoveries
           OR attempt > 1 + max_retries + max_recoveries""",
    "the last transition leads to the present status": """
        SELECT t.id FROM tasks t JOIN transitions x ON x.pos =
            (SELECT max(pos) FROM transitions WHERE task_seq = t.seq)
        WHERE x.to_status <> t.status""",
    "a task that moved has transitions": """
        SELECT id FROM tasks t WHERE status <> 'pending'
           AND NOT EXISTS (SELECT 1 FROM transitions WHERE task_seq = t.seq)""",
    "each transition starts where the one before ended": """
        SELECT task_seq FROM (
            SELECT task_seq, from_status,
                   lag(to_status, 1, 'pending') OVER (PARTITION BY task_seq ORDER BY pos) AS before
            FROM transitions)
        WHERE from_status <> before""",
    "tokens rise": """
        SELECT task_seq FROM (
            SELECT task_seq, token, to_status,
                   lag(token, 1, 0) OVER (PARTITION BY task_seq ORDER BY pos) AS before
            FROM transitions)
        WHERE token < before OR (to_status = 'running' AND token = before)""",
}
