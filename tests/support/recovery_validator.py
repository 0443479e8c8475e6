"""The recovery validator of all crash tests: a store before and after, as a foreign tool sees it.

It asks neither Outlast nor its lock files. Rows are read by the standard library's SQLite in a
process of its own, and without the right to write, so that the log that a crash left stays as it
is; whether a holder lives is read from the kernel's list of processes.
"""

import json
import subprocess
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.invariants import INVARIANTS

FINAL = frozenset({"completed", "failed", "cancelled"})
STUCK = "task {} is still running and its holder is gone"


class SeenTask(NamedTuple):
    """One task as it stood; `holder_lives` is None where nobody here can know."""

    status: str
    kind: str
    token: int
    attempt: int
    recovery_count: int
    holder: str | None = None
    holder_lives: bool | None = None

    @property
    def is_stuck(self) -> bool:
        """Running in the hands of the dead, or in nobody's."""
        return self.status == "running" and (self.holder is None or self.holder_lives is False)


class Seen(NamedTuple):
    """Every task by id, and what is wrong with the file itself."""

    tasks: dict[str, SeenTask]
    faults: dict[str, list[list[Any]]]
    numbered: int = 0
    """How many tasks were ever made."""

    @property
    def stuck(self) -> set[str]:
        """The tasks that only recovery can help."""
        return {task_id for task_id, task in self.tasks.items() if task.is_stuck}

    def ids(self, status: str) -> set[str]:
        """The tasks in one status."""
        return {task_id for task_id, task in self.tasks.items() if task.status == status}


def seen(database: Path, is_checked: bool = True) -> Seen:
    """The store at this moment; open or crashed, it is left as it was.

    The checks of the file and of all its rows may be left out where they come later.
    """
    checks = CHECKS if is_checked else {}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(database), json.dumps(checks)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    tasks = {task_id: SeenTask(*rest) for task_id, *rest in told["tasks"]}
    faults = {name: rows for name, rows in told["checks"].items() if rows not in ([], [["ok"]])}
    return Seen(tasks, faults, told["numbered"])


def troubles(
    before: Seen, after: Seen, added: Container[str] = (), spared: Container[str] = ()
) -> list[str]:
    """What a recovery did wrong; `added` came in meanwhile, kinds that are `spared` may stay."""
    found = [f"{name}: {rows[:3]}" for name, rows in after.faults.items()]
    found += [f"task {one} is lost" for one in sorted(before.tasks.keys() - after.tasks.keys())]
    for task_id, task in after.tasks.items():
        was = before.tasks.get(task_id)
        if was is None:
            if task_id not in added:
                found.append(f"task {task_id} came from nowhere")
        elif was.status in FINAL and was != task:
            found.append(f"task {task_id} was {was.status} and was touched again")
        elif task.token < was.token:
            found.append(f"the token of task {task_id} fell")
        if task.is_stuck and task.kind not in spared:
            found.append(STUCK.format(task_id))
    return found


@contextmanager
def validated(
    database: Path, added: Container[str] = (), spared: Container[str] = ()
) -> Iterator[Seen]:
    """A recovery happens inside; yields what it finds, and judges what it leaves."""
    before = seen(database, is_checked=False)
    yield before
    if found := troubles(before, seen(database), added, spared):
        raise AssertionError("; ".join(found[:5]))


CHECKS = INVARIANTS | {
    "no page is damaged": "PRAGMA integrity_check",
    "no link dangles": "PRAGMA foreign_key_check",
}

_PROGRAM = """
import json, sqlite3, sys
from urllib.parse import quote

def lives(state, boot_id, pid, started):
    if state != "alive":
        return False
    if boot_id != open("/proc/sys/kernel/random/boot_id").read().strip():
        return None
    try:
        fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in "ZX" and int(fields[19]) == started

connection = sqlite3.connect(f"file:{quote(sys.argv[1])}?mode=ro", uri=True, timeout=60)
workers = {
    seq: (incarnation, lives(*rest))
    for seq, incarnation, *rest in connection.execute(
        "SELECT seq, incarnation, state, boot_id, pid, pid_started FROM workers"
    )
}
tasks = [
    [*rest, *workers.get(holder, (None, None))]
    for *rest, holder in connection.execute(
        "SELECT id, status, kind, token, attempt, recovery_count, holder FROM tasks"
    )
]
checks = {
    name: connection.execute(query).fetchall()
    for name, query in json.loads(sys.argv[2]).items()
}
numbered = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'tasks'"
((made,),) = connection.execute(numbered).fetchall()
print(json.dumps({"tasks": tasks, "checks": checks, "numbered": made}))
"""
