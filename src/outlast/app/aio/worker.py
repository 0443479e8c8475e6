"""A worker beside a program's own event loop: it works in threads of its own while one awaits."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.app.app import Outlast
from outlast.domain.duration import Duration
from outlast.worker.counts import Tally

if TYPE_CHECKING:
    from outlast.worker.worker import Worker


class AsyncWorker:
    """The worker of an AsyncOutlast; async functions run on its own loop, not on the caller's."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    @property
    def name(self) -> str:
        """The name its tasks are held under."""
        return self._worker.name

    @property
    def tally(self) -> Tally:
        """What was committed so far."""
        return self._worker.tally

    @property
    def running(self) -> int:
        """How many handlers are at work now."""
        return self._worker.running

    def stop(self, at_once: bool = False) -> None:
        """Claim no more, let handlers finish up to the limit, release the rest; or release now."""
        self._worker.stop(at_once)

    async def run(self, until_empty: bool = False) -> Tally:
        """Work until stopped, or with `until_empty` until nothing is left to be done.

        Cancelled, it stops as `stop()` does and is waited for; signals are the program's own.
        """
        loop = asyncio.get_running_loop()
        over: asyncio.Future[Tally] = loop.create_future()

        def settle(tally: Tally | None, error: BaseException | None) -> None:
            if over.done():
                return
            if error is not None:
                over.set_exception(error)
            elif tally is not None:
                over.set_result(tally)

        def work() -> None:
            tally, failure = None, None
            try:
                tally = self._worker.run(until_empty)
            except BaseException as error:
                failure = error
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, tally, failure)

        threading.Thread(target=work, name="outlast-worker", daemon=True).start()
        try:
            return await asyncio.shield(over)
        except asyncio.CancelledError:
            self._worker.stop()
            await asyncio.wait([over])
            raise


class AsyncWorkerVerbs:
    """The part of an AsyncOutlast that makes workers."""

    _app: Outlast

    @property
    def sync(self) -> Outlast:
        """The same app for threads: one store, the same functions."""
        return self._app

    def worker(
        self,
        *,
        name: str | None = None,
        concurrency: int = 8,
        queues: str | Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        prefetch: int | None = None,
        shutdown: Duration | None = None,
    ) -> AsyncWorker:
        """A worker for the functions registered here; `run()` it.

        Unless told otherwise it serves the queue `default` and those that its functions name.
        """
        worker = self._app.worker(
            name=name, concurrency=concurrency, queues=queues, kinds=kinds,
            prefetch=prefetch, shutdown=shutdown,
        )  # fmt: skip
        return AsyncWorker(worker)
