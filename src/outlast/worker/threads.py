"""The threads in which a worker runs plain functions, in slots that they share with its event loop.

Each thread takes the next job from a common queue, notes that it begins, runs it, and hands in its
outcome; the dispatcher decides when outcomes are stored and what is claimed.
"""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from outlast.tasks.execute import Ended, execute, failed
from outlast.tasks.tracing import traced
from outlast.worker.job import BeginJob, EndJob, Job

if TYPE_CHECKING:
    from outlast.worker.isolation.slot import IsolatedSlot


class Slots:
    """Limits how many handlers run at once, in threads and on the event loop together."""

    def __init__(self, count: int) -> None:
        self._free: SimpleQueue[None] = SimpleQueue()
        self.rouse: Callable[[], None] | None = None
        """Called when a slot is free again, if somebody who may not wait wants one."""
        self.is_wanted = False
        self.widen(count)

    def widen(self, count: int) -> None:
        """Add slots."""
        for _ in range(count):
            self._free.put(None)

    def take(self) -> None:
        """Wait for a slot."""
        self._free.get()

    def take_if_free(self) -> bool:
        """Take a slot, or be roused when there is one."""
        if self._took_one():
            return True
        # The flag is set before the second try: a slot freed in between would rouse nobody.
        self.is_wanted = True
        return self._took_one()

    def _took_one(self) -> bool:
        try:
            self._free.get_nowait()
        except Empty:
            return False
        return True

    def give_back(self) -> None:
        """Let the next one have it."""
        self._free.put(None)
        if self.is_wanted and self.rouse is not None:
            self.is_wanted = False
            self.rouse()


class Threads:
    """Threads for plain functions, made as they are needed; each keeps its own child process
    for functions that run in one."""

    def __init__(self, most: int, slots: Slots, begin_job: BeginJob, end_job: EndJob) -> None:
        self._most = most
        self._slots = slots
        self._begin_job = begin_job
        self._end_job = end_job
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.lock_descriptor: int | None = None

    def give(self, jobs: list[Job]) -> None:
        """Queue jobs, and start threads for them if more may be started."""
        for job in jobs:
            self._queue.put(job)
        while len(self._threads) < min(self._most, self._queue.qsize() + len(self._threads)):
            name = f"outlast-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The machine gives no more threads: those there are do it all, if there are any.
                if not self._threads:
                    raise
                return
            self._threads.append(thread)

    def _work(self) -> None:
        child: IsolatedSlot | None = None
        try:
            while (job := self._queue.get()) is not None:
                self._slots.take()
                if self._begin_job(job):
                    if job.function.options.isolation == "process":
                        child = child or _slot()
                        # The lock is a new one after this worker was taken for dead.
                        child.lock_descriptor = self.lock_descriptor
                        ended = _run_isolated(child, job)
                    else:
                        ended = _run(job)
                    self._end_job(job, ended)
                    del ended
                self._slots.give_back()
                # An idle thread must not keep the last task's payload and result alive.
                del job
        finally:
            if child is not None:
                child.close()

    def close(self, timeout_seconds: float) -> None:
        """Let idle threads end; who is still busy with something is left behind as a daemon."""
        for _ in self._threads:
            self._queue.put(None)
        self._slots.widen(len(self._threads))
        until = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))


def _slot() -> "IsolatedSlot":
    from outlast.worker.isolation.slot import IsolatedSlot

    return IsolatedSlot()


def _end_child(child: "IsolatedSlot", job: Job, reason: str) -> None:
    child.kill(reason, only=job.grant)


def _run(job: Job) -> Ended:
    function, claimed = job.function, job.claimed
    return traced(function, claimed, lambda _: execute(function, claimed, job.ctx))


def _run_isolated(child: "IsolatedSlot", job: Job) -> Ended:
    job.interrupt = lambda reason: _end_child(child, job, reason)
    try:
        if job.ctx.cancelled:
            return Ended(error="called off before it began")
        limit_seconds = job.function.options.timeout_seconds
        return traced(
            job.function,
            job.claimed,
            lambda trace: child.run(
                job.function, job.claimed, job.ctx, timeout_seconds=limit_seconds, trace=trace
            ),
        )
    except Exception as error:
        return failed(error)
    finally:
        job.interrupt = None
