"""A worker's hands: threads that run plain functions, one loop that runs async ones.

Each takes the next task from a common heap, notes that its work begins, runs it, and lays the
outcome down; when outcomes are stored, and what is claimed, is for others to decide.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from outlast.engine.context import Context
from outlast.engine.functions import AnyFunction
from outlast.engine.run import Ended, execute, execute_async
from outlast.store.records import Claimed, Grant

if TYPE_CHECKING:
    from outlast.engine.isolated import IsolatedSlot

Begun = Callable[["Job"], bool]
Laid = Callable[["Job", Ended], None]


class Job:
    """One claimed task on its way through a worker."""

    __slots__ = (
        "called_off_at", "called_off_utc_ms", "claimed", "ctx", "function", "interrupt",
        "lease_ends_mono_ms", "times_out_at",
    )  # fmt: skip

    def __init__(
        self,
        claimed: Claimed,
        function: AnyFunction,
        ctx: Context,
        claimed_mono_ms: int,
    ) -> None:
        self.claimed = claimed
        self.function = function
        self.ctx = ctx
        self.lease_ends_mono_ms = claimed_mono_ms + claimed.lease_ms
        self.times_out_at = float("inf")
        """When its handler has had its time, by time.monotonic()."""
        self.called_off_utc_ms: int | None = None
        """When its handler was told that nothing it does counts any more."""
        self.called_off_at = float("inf")
        """The same by time.monotonic()."""
        self.interrupt: Callable[[str], None] | None = None
        """Ends the handler, where that can be done."""

    @property
    def grant(self) -> Grant:
        """The proof of ownership."""
        return self.claimed.grant

    def renewed(self, mono_ms: int) -> None:
        """Its lease was pushed out from that moment."""
        self.lease_ends_mono_ms = max(self.lease_ends_mono_ms, mono_ms + self.claimed.lease_ms)

    def call_off(self, reason: str, now: float, now_utc_ms: int) -> None:
        """Tell the handler that nothing it does counts any more, and end it where possible."""
        if self.called_off_utc_ms is None:
            self.called_off_at, self.called_off_utc_ms = now, now_utc_ms
        self.ctx.cancel(reason)
        interrupt = self.interrupt
        if interrupt is not None:
            interrupt(reason)


class Slots:
    """As many handlers at once as there may be, be they in threads or on the loop."""

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
        # Said first and then tried again: one that came free in between would rouse nobody.
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

    def __init__(self, most: int, slots: Slots, begun: Begun, laid: Laid) -> None:
        self._most = most
        self._slots = slots
        self._begun = begun
        self._laid = laid
        self._heap: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.lock_descriptor: int | None = None

    def give(self, jobs: list[Job]) -> None:
        """Put tasks on the heap."""
        for job in jobs:
            self._heap.put(job)
        while len(self._threads) < min(self._most, self._heap.qsize() + len(self._threads)):
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
            while (job := self._heap.get()) is not None:
                self._slots.take()
                if self._begun(job):
                    if job.function.options.isolation == "process":
                        child = child or _slot()
                        # Another one after this worker was taken for dead and began anew.
                        child.lock_descriptor = self.lock_descriptor
                        ended = _run_isolated(child, job)
                    else:
                        ended = execute(job.function, job.claimed, job.ctx)
                    self._laid(job, ended)
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
            self._heap.put(None)
        self._slots.widen(len(self._threads))
        until = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))


def _slot() -> "IsolatedSlot":
    from outlast.engine.isolated import IsolatedSlot

    return IsolatedSlot()


def _end_child(child: "IsolatedSlot", job: Job, reason: str) -> None:
    child.kill(reason, only=job.grant)


def _run_isolated(child: "IsolatedSlot", job: Job) -> Ended:
    job.interrupt = lambda reason: _end_child(child, job, reason)
    try:
        if job.ctx.cancelled:
            return Ended(error="called off before it began")
        limit_seconds = job.function.options.timeout_seconds
        return child.run(job.function, job.claimed, job.ctx, timeout_seconds=limit_seconds)
    finally:
        job.interrupt = None


class Loop:
    """One event loop in one thread, with as many coroutines at work as there may be at once."""

    def __init__(self, most: int, slots: Slots, begun: Begun, laid: Laid) -> None:
        self._most = most
        self._slots = slots
        self._begun = begun
        self._laid = laid
        self._heap: deque[Job] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._workers: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()

    def give(self, jobs: list[Job]) -> None:
        """Put tasks on the loop's heap."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._slots.rouse = self._rouse_soon
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="outlast-loop", daemon=True
            )
            self._thread.start()
        self._heap.extend(jobs)
        self._rouse_soon()

    def _rouse_soon(self) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rouse)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def _rouse(self) -> None:
        """Wake as many as have something to do, and make more if there may be more."""
        assert self._loop is not None
        wanted = len(self._heap)
        while wanted > 0 and self._idle:
            sleeper = self._idle.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                wanted -= 1
        for _ in range(min(wanted, self._most - len(self._workers))):
            worker = self._loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        assert self._loop is not None
        while True:
            while self._heap and self._slots.take_if_free():
                job = self._heap.popleft()
                if self._begun(job):
                    await self._execute(job, me)
                self._slots.give_back()
                # Handlers that never wait must not keep the loop from its other work.
                await asyncio.sleep(0)
            sleeper: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(sleeper)
            await sleeper

    async def _execute(self, job: Job, me: "asyncio.Task[None]") -> None:
        job.interrupt = self._cancelling(job, me)
        ended = await execute_async(job.function, job.claimed, job.ctx)
        job.interrupt = None
        # A cancellation was meant for the handler, which has ended.
        while me.cancelling():
            me.uncancel()
        self._laid(job, ended)

    def _cancelling(self, job: Job, worker: "asyncio.Task[None]") -> Callable[[str], None]:
        loop = self._loop
        assert loop is not None

        def cancel(reason: str) -> None:
            def on_the_loop() -> None:
                if job.interrupt is cancel:
                    worker.cancel(reason)

            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_the_loop)

        return cancel

    def close(self, timeout_seconds: float) -> None:
        """Cancel what is left and end the loop."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end)
        thread.join(timeout_seconds)

    def _end(self) -> None:
        assert self._loop is not None
        for worker in self._workers:
            worker.cancel()
        self._loop.call_soon(self._loop.stop)


class Waker:
    """Wakes a thread that sleeps in select; may be called anywhere, also in a signal handler."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)
        # Held while the pipe is used: a late handler must not write to whoever got its number.
        # A signal handler may come in between, so it lets the same thread in twice.
        self._mutex = threading.RLock()
        self._is_closed = False

    def fileno(self) -> int:
        """What to wait on."""
        return self._reads

    def wake(self) -> None:
        """Wake the sleeper, now or when it next lies down."""
        with self._mutex, suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._writes, b"!")

    def drain(self) -> None:
        """Forget the wake-ups so far."""
        with suppress(BlockingIOError):
            os.read(self._reads, 4096)

    def close(self) -> None:
        """Let the descriptors go; from now on nobody is woken."""
        with self._mutex:
            self._is_closed = True
            os.close(self._reads)
            os.close(self._writes)
