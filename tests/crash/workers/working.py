"""Workers to be killed, stopped and cut off, as their tests see them.

Handlers and tests speak by files in a folder of signs: what a handler has done must be known even
when it did not live to tell.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from outlast import Outlast, WorkerInfo
from outlast.host import file_locks, processes
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import read_history
from outlast_lab.stage.process_table import has_ended, store_process_below
from tests.crash.workers.worker_side import folder_beside, leave
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import assert_sound

PATIENCE_SECONDS = 60


class WorkerChild(Child):
    """A child that runs a worker with the handlers of worker_side."""

    def __init__(
        self, database: Path, name: str = "w", settings: Any = None, **options: Any
    ) -> None:
        self._database = database
        self.name = name
        super().__init__(_works, database, name, settings or {}, options)

    def __enter__(self) -> "WorkerChild":
        return self

    def store_process(self) -> int:
        """The pid of its store process; waits for one."""
        pid: int = until(lambda: store_process_below(self.pid), "there is no store process")
        return pid

    def begun(self, task_id: str, attempt: int = 1) -> str:
        """Waits until a handler is at work on the task; what it says of itself."""
        return self.sign("begun", task_id, attempt)

    def troubles(self) -> list[tuple[float, str]]:
        """What it has logged so far, each with its time."""
        path = folder_beside(self._database, "signs") / f"log of {self.name}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(float(at), text) for at, _, text in (line.partition(" ") for line in lines)]

    def sign(self, word: str, task_id: str, attempt: int = 1) -> str:
        """What a handler's sign says; waits for it."""
        path = folder_beside(self._database, "signs") / f"{word} {task_id} {attempt}"
        until(lambda: path.exists() or not lives(self.pid), f"no handler left {path.name}")
        assert path.exists(), self.error()
        return path.read_text()

    def has_left(self, word: str, task_id: str, attempt: int = 1) -> bool:
        """Whether there is such a sign."""
        return (folder_beside(self._database, "signs") / f"{word} {task_id} {attempt}").exists()

    def let_go(self, task_id: str) -> None:
        """Have the handlers that hold this task return."""
        leave(folder_beside(self._database, "signs"), f"go {task_id}")

    def ended(self) -> Any:
        """Its tally, once it has ended well."""
        said = self.hear_all()
        assert self.wait() == 0, self.error()
        return said[-1]


def _works(path: str, name: str, settings: dict[str, object], options: dict[str, object]) -> None:
    from tests.crash.workers.worker_side import work

    work(path, name, settings, options)


def until(found: Callable[[], Any], what: str) -> Any:
    """What a question is answered with, once it is answered with something."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not (answer := found()):
        assert time.monotonic() < ends_at, what
        time.sleep(0.005)
    return answer


def lives(pid: int) -> bool:
    """Whether there is such a process that is more than a corpse."""
    return not has_ended(pid)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that is stopped for a while; returns once the kernel says that it stands still."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (processes.process_stat(pid) or "T")[0] == "T", "it does not stop")
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def stopped_between_writes(pid: int, database: Path) -> Iterator[None]:
    """The same for one that writes: stopped inside a write it would stand in everybody's way."""
    gate = Path(f"{database}-outlast", "gate")
    for _ in range(100):
        with stopped(pid):
            if pid not in file_locks.flock_holders(gate):
                yield
                return
    raise AssertionError("it is always found inside a write")


@contextmanager
def looking(database: Path) -> Iterator[Outlast]:
    """An object that only looks, and changes nothing by it."""
    app = Outlast(database)
    yield app
    app.close()


def lease_ends_mono_ms(database: Path, task_id: str) -> int:
    """When a task's lease ends, on the clock that all processes share."""
    with closing(Hand(database)) as hand:
        return int(hand.value("SELECT lease_expires_mono_ms FROM tasks WHERE id = ?", task_id))


def named(app: Outlast, name: str) -> WorkerInfo:
    """The newest worker of that name; waits for it."""
    found: list[WorkerInfo] = until(
        lambda: [one for one in app.workers() if one.name == name], f"there is no worker {name}"
    )
    return found[0]


@contextmanager
def write_lock_held(database: Path) -> Iterator[None]:
    """Another process stands in every writer's way for a while."""
    with Child(_holds_the_write_lock, database) as child:
        assert child.hear() == "held"
        yield
        child.say()
        assert child.wait() == 0


def _holds_the_write_lock(path: str) -> None:
    import sqlite3

    from tests.support.childside import hear, say

    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    hear()
    connection.execute("ROLLBACK")


def assert_history_is_sound(
    database: Path, killed_at: dict[str, float], final: frozenset[str] = frozenset({"completed"})
) -> None:
    """What the workers were told agrees with the store, and nothing is left undone."""
    history = read_history(folder_beside(database, "histories"))
    stored = foreign_stored(database)
    history.killed_at = killed_at
    # The tests put the work in, and not on the record.
    found = [one for one in violations(history, stored) if one.kind != "phantom"]
    assert not found, "\n".join(map(str, found[:5]))
    assert {task.status for task in stored.tasks.values()} == final
    assert_sound(database)


def status_is(app: Outlast, task_id: str, status: str) -> None:
    """Waits until a task has come to a status."""
    until(lambda: app.get(task_id).status == status, f"{task_id} does not become {status}")
