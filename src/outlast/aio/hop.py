"""Blocking calls leave the event loop through here, into a bounded pool of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8


class Hop:
    """A pool that is made when first used, and may be used again after it was closed."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread. Cancelled, a call that has begun goes on to its end."""
        return await asyncio.wrap_future(self._submit(lambda: call(*args, **kwargs)))

    async def undone_if_cancelled(self, call: Callable[[], T], undo: Callable[[T], object]) -> T:
        """Run a call whose result must not be lost: nobody there to take it, it is undone."""
        running = self._submit(call)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if running.cancel():
                raise
            await _until_done(running, waiting)
            if running.exception() is None:
                undoing = self._submit(lambda: undo(running.result()))
                await _until_done(undoing, asyncio.wrap_future(undoing))
            raise

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "outlast-aio")
        return self._pool.submit(call)

    async def close(self) -> None:
        """End the threads, once what they do is done."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)


async def _until_done(running: Future[T], waiting: asyncio.Future[T]) -> None:
    """Wait for something that must not be left half-done, however often we are cancelled."""
    while not running.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
