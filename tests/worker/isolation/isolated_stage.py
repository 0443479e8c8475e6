"""What the tests of isolation share: attempts to run, and watching processes come and go."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast import Outlast
from outlast.host import processes
from outlast.store.records import Claimed
from outlast.tasks.context import Context
from outlast.tasks.execute import Ended
from outlast.tasks.functions import AnyFunction
from outlast.worker.isolation.slot import IsolatedSlot

PATIENCE_SECONDS = 60


def attempt(
    app: Outlast, function: AnyFunction, group: str | None = None, **payload: Any
) -> tuple[Claimed, Context]:
    """A task of the function's kind, claimed, with the context of its worker."""
    task = app.enqueue(function.kind, payload, group=group)
    (lease,) = app.claim("w1", kinds=[function.kind])
    assert lease.task_id == task.id
    return lease.claimed, Context(lease.session, lease.claimed)


def end_of(slot: IsolatedSlot, app: Outlast, function: AnyFunction, **payload: Any) -> Ended:
    """How the function's task ends in a slot."""
    claimed, ctx = attempt(app, function, **payload)
    return slot.run(function, claimed, ctx)


class Running:
    """A handler that is at work in a slot while the test goes on."""

    def __init__(
        self,
        slot: IsolatedSlot,
        app: Outlast,
        function: AnyFunction,
        timeout_seconds: float | None = None,
        **payload: Any,
    ) -> None:
        self._slot = slot
        self._ended: list[Ended] = []
        self.claimed, self.ctx = attempt(app, function, **payload)

        def run() -> None:
            self._ended.append(
                slot.run(function, self.claimed, self.ctx, timeout_seconds=timeout_seconds)
            )

        self._thread = threading.Thread(target=run)

    def ended(self) -> Ended:
        """How it ended; waits for that."""
        self._thread.join(PATIENCE_SECONDS)
        (ended,) = self._ended
        return ended

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._slot.kill("the test is over", only=self.claimed.grant)
        self._thread.join(PATIENCE_SECONDS)


def pids_in(sign: Path) -> list[int]:
    """The pids a handler wrote down; waits for them."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not sign.exists():
        assert time.monotonic() < until, f"no handler wrote {sign.name}"
        time.sleep(0.005)
    return [int(pid) for pid in sign.read_text(encoding="ascii").split()]


def lives(pid: int) -> bool:
    """Whether there is such a process that is more than a corpse."""
    found = processes.process_stat(pid)
    return found is not None and found[0] not in "ZX"


def gone_after_seconds(*pids: int) -> float:
    """How long it takes until none of the processes lives any more."""
    began = time.monotonic()
    while any(lives(pid) for pid in pids):
        assert time.monotonic() < began + PATIENCE_SECONDS, "still there"
        time.sleep(0.005)
    return time.monotonic() - began


def open_descriptors() -> int:
    """How many descriptors this process has open, those of stores apart: they open more as they
    need them."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            link = os.readlink(f"/proc/self/fd/{name}")
            # A store's watch of its folders has no path.
            found += ".db" not in link and "inotify" not in link
    return found
