"""A worker at work while its test goes on, and the patience to see what it does."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast.worker.counts import Tally
from outlast.worker.worker import Worker

PATIENCE_SECONDS = 30.0
TICK_SECONDS = 0.005


def eventually(fact: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """What the fact says once it says something; a failure when it does not in time."""
    ends_at = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < ends_at, "it did not come to that in time"
        time.sleep(TICK_SECONDS)
    return found


class Shift:
    """Runs a worker in a thread of its own from `with` to its end."""

    def __init__(self, worker: Worker, until_empty: bool = False) -> None:
        self.worker = worker
        self.tally: Tally | None = None
        self.error: BaseException | None = None
        self._until_empty = until_empty
        self._thread = threading.Thread(target=self._run, name="shift", daemon=True)

    def _run(self) -> None:
        try:
            self.tally = self.worker.run(self._until_empty)
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def ended(self, seconds: float = PATIENCE_SECONDS) -> Tally:
        """Wait for the end of the run, and hear what it says."""
        self._thread.join(seconds)
        assert self.is_over, "the run did not end in time"
        if self.error is not None:
            raise self.error
        assert self.tally is not None
        return self.tally

    def __enter__(self) -> "Shift":
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        if not self.is_over:
            self.worker.stop(at_once=True)
        self._thread.join(PATIENCE_SECONDS)
        assert self.is_over, "the run did not end when it was stopped"


class Gate:
    """Handlers come in and wait; the test sees who is inside and lets them go."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._mutex = threading.Lock()
        self._inside = 0
        self.most_inside = 0
        self.passed: list[Any] = []

    def enter(self, who: Any = None) -> None:
        with self._mutex:
            self._inside += 1
            self.most_inside = max(self.most_inside, self._inside)
            self.passed.append(who)
        assert self._opened.wait(PATIENCE_SECONDS), "nobody opened the gate"
        with self._mutex:
            self._inside -= 1

    def open(self) -> None:
        self._opened.set()

    def wait_for(self, count: int) -> None:
        """Until so many have come in since the beginning."""
        eventually(lambda: len(self.passed) >= count)


def own_threads() -> set[str]:
    """The names of the threads that are ours."""
    return {one.name for one in threading.enumerate() if one.name.startswith("outlast")}


def descriptors() -> dict[int, str]:
    """What this process has open, and what each leads to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def children() -> set[int]:
    """The processes that this one started and that are not gone."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}
