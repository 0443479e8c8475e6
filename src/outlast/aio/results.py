"""One watch for all coroutines of a loop that wait for results, however many they are."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

from outlast.aio.hop import Hop
from outlast.domain.duration import Duration
from outlast.engine.vigil import Vigil, outcome, timeout_seconds, too_late
from outlast.store.base import StoreReads


class Results:
    """Looks for all tasks that are waited for at once; it works only while somebody waits."""

    def __init__(self, reads: Callable[[], StoreReads], hop: Hop) -> None:
        self._reads = reads
        self._hop = hop
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._news: asyncio.Event | None = None
        self._watch: asyncio.Task[None] | None = None

    async def wait_for(self, task_id: str, timeout: Duration | None) -> Any:
        """The result of a task once it has one; raises what became of it instead."""
        ended = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, set()).add(ended)
        self._see_to_the_watch()
        try:
            await asyncio.wait_for(ended, timeout_seconds(timeout))
        except TimeoutError:
            raise too_late(task_id, timeout) from None
        finally:
            waiting = self._waiting[task_id]
            waiting.discard(ended)
            if not waiting:
                del self._waiting[task_id]
        reads = await self._hop(self._reads)
        return outcome(await self._hop(reads.get, task_id), task_id)

    def _see_to_the_watch(self) -> None:
        """Start watching, or have the watch look at once for the one that came."""
        if self._watch is None or self._watch.done():
            self._news = asyncio.Event()
            self._watch = asyncio.create_task(self._look_out(self._news))
        elif self._news is not None:
            self._news.set()

    async def _look_out(self, news: asyncio.Event) -> None:
        try:
            reads = await self._hop(self._reads)
            vigil = Vigil(reads, None)
            with closing(reads.ear(for_work=False)) as ear:
                while self._waiting:
                    news.clear()
                    await self._hop(vigil.begin)
                    await self._answer(reads)
                    while self._waiting and not news.is_set():
                        pause = await self._hop(vigil.pause_seconds)
                        if pause == 0 or await _hears(ear.wait_async(pause), news):
                            break
        except Exception as error:
            for waiting in self._waiting.values():
                for ended in waiting:
                    if not ended.done():
                        ended.set_exception(error)

    async def _answer(self, reads: StoreReads) -> None:
        asked = list(self._waiting)
        for task_id in await self._hop(reads.ended_among, asked) if asked else ():
            for ended in self._waiting.get(task_id, ()):
                if not ended.done():
                    ended.set_result(None)

    async def close(self) -> None:
        """Stop watching; whoever still waits is told that the store was closed."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])


async def _hears(hint: Any, news: asyncio.Event) -> bool:
    """Whether a commit is hinted at, or somebody new came, before the time is up."""
    heard = asyncio.ensure_future(hint)
    came = asyncio.ensure_future(news.wait())
    try:
        await asyncio.wait((heard, came), return_when=asyncio.FIRST_COMPLETED)
        return came.done() or (heard.done() and bool(heard.result()))
    finally:
        for one in (heard, came):
            one.cancel()
        await asyncio.wait((heard, came))
