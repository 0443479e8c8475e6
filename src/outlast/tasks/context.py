"""What a running handler is given as `ctx`: its task, its way to record progress, its alarms."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from outlast.domain import codec
from outlast.domain.task import Checkpoint
from outlast.errors import TaskCancelled
from outlast.store.future import Future
from outlast.store.records import Claimed, Statement
from outlast.store.session import Session
from outlast.tasks import checkpoint, settle

MAX_PROGRESS_BYTES = 4096


class Context:
    """One attempt of one task, as its handler sees it. A handler that looks at `cancelled` now
    and then stops early when its result is no longer wanted; nothing interrupts it by force."""

    __slots__ = (
        "_alarm",
        "_knows_of_stop",
        "_session",
        "cancelled",
        "claimed",
        "has_completed",
        "is_completing",
        "progressed",
        "reason",
        "stopping",
    )

    def __init__(self, session: Session, claimed: Claimed) -> None:
        self._session = session
        self._alarm: threading.Event | None = None
        self._knows_of_stop = False
        self.claimed = claimed
        self.has_completed = False
        """Whether the handler has completed the task by its own word."""
        self.is_completing = False
        """Whether it is about to: that its lease has ended need not mean that it was lost."""
        self.cancelled = False
        """Whether the task was cancelled, timed out or taken back: no result counts any more."""
        self.stopping = False
        """Whether the worker is about to stop: finish, or record progress, soon."""
        self.reason: str | None = None
        """Why the task was cancelled."""
        self.progressed: dict[str, Any] | None = None
        """What the handler last said of its progress; the next beat carries it."""

    def __repr__(self) -> str:
        """Names the task and never its payload."""
        return f"<Context of task {self.task_id} ({self.kind}), attempt {self.attempt}>"

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.claimed.task_id

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self.claimed.kind

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.claimed.queue

    @property
    def group(self) -> str | None:
        """The group it belongs to."""
        return self.claimed.group

    @property
    def attempt(self) -> int:
        """Which execution this is, from 1."""
        return self.claimed.attempt

    def checkpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """Append a record of progress that survives a crash."""
        return checkpoint.add(self._session, self.claimed, type, data, metadata).result()

    async def acheckpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """The same from a coroutine, which does not hold up its loop meanwhile."""
        return await checkpoint.add(self._session, self.claimed, type, data, metadata)

    def complete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """Finish the task here and now; statements on your own tables commit together with it.

        What the handler returns or raises afterwards does not count any more.
        """
        with self._completing():
            return self._completed(result, also).result()

    async def acomplete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """The same from a coroutine, which does not hold up its loop meanwhile."""
        with self._completing():
            return await self._completed(result, also)

    @contextmanager
    def _completing(self) -> Iterator[None]:
        self.is_completing = True
        try:
            yield
        finally:
            self.is_completing = False

    def _completed(self, result: Any, also: Sequence[Statement]) -> Future[bool]:
        def finish(completed: Callable[[], bool]) -> bool:
            answer = completed()
            # Noted here, where a coroutine that is cancelled too late to stop it gets as well.
            self.has_completed = True
            return answer

        return settle.complete(self._session, self.claimed, result, also).then(finish)

    def latest_checkpoint(self, type: str | None = None) -> Checkpoint | None:
        """The newest checkpoint of this task, perhaps of an earlier attempt."""
        found = checkpoint.find(self._session.store, self.task_id, type, 1)
        return found[0] if found else None

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the work is; the worker's next beat carries it."""
        said = {"task_id": self.task_id, "done": done, "total": total, "note": note}
        codec.encode(said, "progress", MAX_PROGRESS_BYTES)
        self.progressed = said

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled when the result is no longer wanted."""
        if self.cancelled:
            raise TaskCancelled(self.task_id)

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until the task is cancelled or the worker begins to stop.

        True when one of them is so. To stop early without being done, raise GiveBack: whatever
        else a handler returns counts as its result.
        """
        alarm = self._alarm
        if alarm is None:
            alarm = self._alarm = threading.Event()
        if self._knows_of_stop:
            # Only a cancellation would be news.
            alarm.clear()
        elif self.stopping:
            self._knows_of_stop = True
            return True
        if not self.cancelled:
            alarm.wait(seconds)
        self._knows_of_stop = self.stopping
        return self.cancelled or self.stopping

    def cancel(self, reason: str) -> None:
        """The worker's word that no result counts any more."""
        self.reason = self.reason or reason
        self.cancelled = True
        self._ring()

    def stop_soon(self) -> None:
        """The worker's word that it is about to stop."""
        if not self.stopping:
            self.stopping = True
            self._ring()

    def _ring(self) -> None:
        if self._alarm is not None:
            self._alarm.set()
