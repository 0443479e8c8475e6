"""One watch for all coroutines of a loop that wait for results, however many they are."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.waiting import outcome, timeout_seconds, too_late
from outlast.clock import Instant
from outlast.domain.duration import Duration
from outlast.errors import StoreError
from outlast.store.change_watch import ChangeWatch
from outlast.store.store import Store

Reads = Callable[[], Store]


class Results:
    """The watches of an object, one for each loop in which somebody waits."""

    def __init__(self, reads: Reads, pool: ThreadPool, clock: Callable[[], Instant]) -> None:
        self._reads = reads
        self._pool = pool
        self._clock = clock
        self._mutex = threading.Lock()
        self._watches: dict[asyncio.AbstractEventLoop, Watch] = {}

    async def wait_for(self, task_id: str, timeout: Duration | None) -> Any:
        """The result of a task once it has one; raises what became of it instead."""
        patience = asyncio.timeout(timeout_seconds(timeout))
        try:
            async with patience:
                await self._watch().end_of(task_id)
        except TimeoutError:
            if not patience.expired():
                raise
        task = await self._pool(lambda: self._reads().tasks.get(task_id))
        if patience.expired() and task is not None and not task.is_final:
            now = self._clock()
            raise await self._pool(lambda: too_late(self._reads(), task_id, timeout, now))
        return outcome(task, task_id)

    def _watch(self) -> "Watch":
        """The watch of the running loop; loops that were closed have left theirs behind."""
        here = asyncio.get_running_loop()
        with self._mutex:
            for loop in [loop for loop in self._watches if loop.is_closed()]:
                del self._watches[loop]
            found = self._watches.get(here)
            if found is None or found.is_over:
                found = self._watches[here] = Watch(self._reads, self._pool)
            return found

    async def close(self) -> None:
        """Stop watching; whoever still waits is told that the store was closed."""
        with self._mutex:
            watches, self._watches = self._watches, {}
        here = watches.pop(asyncio.get_running_loop(), None)
        for loop, watch in watches.items():
            # A loop that was closed meanwhile has nobody left to be told.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(watch.stop)
        if here is not None:
            await here.stopped()


class Watch:
    """Looks for all tasks that are waited for at once; it ends when nobody waits any more."""

    def __init__(self, reads: Reads, pool: ThreadPool) -> None:
        self._reads = reads
        self._pool = pool
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._news = asyncio.Event()
        self._job = asyncio.create_task(self._look_out())

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and another must begin."""
        return self._job.done()

    def stop(self) -> None:
        """End it from within its own loop."""
        self._job.cancel()

    async def stopped(self) -> None:
        """End it, and wait until everybody has been told."""
        self._job.cancel()
        await asyncio.wait([self._job])

    async def end_of(self, task_id: str) -> None:
        """Return once a task is final or not to be found."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, set()).add(ended)
        self._news.set()
        try:
            await ended
        finally:
            waiting = self._waiting[task_id]
            waiting.discard(ended)
            if not waiting:
                del self._waiting[task_id]

    async def _look_out(self) -> None:
        try:
            reads = await self._pool(self._reads)
            watch = ChangeWatch(reads, None)
            with closing(reads.result_listener()) as listener:
                while self._waiting:
                    self._news.clear()
                    await self._pool(watch.begin)
                    await self._answer(reads)
                    while self._waiting and not self._news.is_set():
                        pause = await self._pool(watch.pause_seconds)
                        if pause == 0 or await _hears(listener.wait_async(pause), self._news):
                            break
        except asyncio.CancelledError:
            self._give_up(StoreError("the store was closed while a task was waited for"))
            raise
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        for waiting in self._waiting.values():
            for ended in waiting:
                if not ended.done():
                    ended.set_exception(error)

    async def _answer(self, reads: Store) -> None:
        asked = list(self._waiting)
        for task_id in await self._pool(reads.tasks.ended_among, asked) if asked else ():
            for ended in self._waiting.get(task_id, ()):
                if not ended.done():
                    ended.set_result(None)


async def _hears(hint: Any, news: asyncio.Event) -> bool:
    """Whether a commit is hinted at, or somebody new came, before the time is up."""
    heard = asyncio.ensure_future(hint)
    came = asyncio.ensure_future(news.wait())
    try:
        await asyncio.wait((heard, came), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _ended(heard, came)
        raise
    is_heard, has_come = heard.done(), came.done()
    await _ended(heard, came)
    return has_come or (is_heard and bool(heard.result()))


async def _ended(*waits: asyncio.Future[Any]) -> None:
    for one in waits:
        one.cancel()
    await asyncio.wait(waits)
