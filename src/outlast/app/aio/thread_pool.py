"""Blocking calls leave the event loop through here, into a bounded pool of threads."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8


class ThreadPool:
    """A pool that is made when first used, and may be used again after it was closed.

    It belongs to no loop: several may use it, at once or one after the other.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread. Cancelled, a call that has begun goes on, and nobody waits."""
        return await asyncio.wrap_future(self._begin(lambda: call(*args, **kwargs)))

    async def to_its_end(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call in a thread. Cancelled, a call that has begun is waited for."""
        return await self.undone_if_cancelled(lambda: call(*args, **kwargs), None)

    async def undone_if_cancelled(
        self, call: Callable[[], T], undo: Callable[[T], object] | None
    ) -> T:
        """Run a call whose result must not be lost: nobody there to take it, it is undone."""
        is_taken = False
        running = self._begin(call)
        waiting = asyncio.wrap_future(running)
        waiting.add_done_callback(_is_seen)
        if undo is not None:
            loop = asyncio.get_running_loop()
            running.add_done_callback(
                lambda done: self._undo_unseen(loop, done, undo, lambda: is_taken)
            )
        try:
            result = await asyncio.shield(waiting)
            is_taken = True
            return result
        except asyncio.CancelledError:
            if not running.cancel():
                await _until_done(running, waiting)
                is_taken = True
                if undo is not None and running.exception() is None:
                    undoing = self._begin(lambda: undo(running.result()))
                    await _until_done(undoing, asyncio.wrap_future(undoing))
            raise

    def _undo_unseen(
        self,
        loop: asyncio.AbstractEventLoop,
        done: Future[T],
        undo: Callable[[T], object],
        is_taken: Callable[[], bool],
    ) -> None:
        """A loop that was closed meanwhile has nobody left to take the result.

        Unless it was taken before: the loop is told first, and may be closed when we come to look.
        """
        if not loop.is_closed() or is_taken():
            return
        # At the interpreter's end no thread can be had any more; closing does it then.
        with suppress(RuntimeError):
            if not done.cancelled() and done.exception() is None:
                self._begin(lambda: undo(done.result()))

    def _begin(self, call: Callable[[], T]) -> Future[T]:
        if os.getpid() != self._pid:
            # A forked child inherits the pool and none of its threads.
            self._reset()
        with self._mutex:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "outlast-aio")
            return self._pool.submit(call)

    async def close(self) -> None:
        """End the threads, once what they do is done."""
        with self._mutex:
            pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)


def _is_seen(waiting: asyncio.Future[T]) -> None:
    """To one who was cancelled the call's own error is no news, and nothing to be logged."""
    if not waiting.cancelled():
        waiting.exception()


async def _until_done(running: Future[T], waiting: asyncio.Future[T]) -> None:
    """Wait for something that must not be left half-done, however often we are cancelled."""
    while not running.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
