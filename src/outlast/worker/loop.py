"""Where a worker runs async functions: one event loop in one thread."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from outlast.logs import logger
from outlast.tasks.execute import Ended, execute_async, failed
from outlast.tasks.tracing import traced_on_loop
from outlast.worker.job import BeginJob, EndJob, Job
from outlast.worker.threads import Slots

CLEANING_UP_SECONDS = 0.5

log = logger("outlast.worker")


class Loop:
    """One event loop in one thread, with as many coroutines at work as there may be at once."""

    def __init__(self, most: int, slots: Slots, begin_job: BeginJob, end_job: EndJob) -> None:
        self._most = most
        self._slots = slots
        self._begin_job = begin_job
        self._end_job = end_job
        self._queue: deque[Job] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._workers: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._is_ending = False

    def give(self, jobs: list[Job]) -> None:
        """Queue jobs for the loop, which the first call starts."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._slots.rouse = self._rouse_soon
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="outlast-loop", daemon=True
            )
            self._thread.start()
        self._queue.extend(jobs)
        self._rouse_soon()

    def _rouse_soon(self) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rouse)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_ending:
            try:
                loop.run_forever()
            except BaseException as error:
                # A subtask's sys.exit() gets here; its handler is told by its own await.
                log.warning("a handler's subtask raised %s", type(error).__name__)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    def _rouse(self) -> None:
        """Wake as many as have something to do, and make more if there may be more."""
        assert self._loop is not None
        wanted = len(self._queue)
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
            while self._queue and self._slots.take_if_free():
                job = self._queue.popleft()
                if self._begin_job(job):
                    await self._execute(job, me)
                self._slots.give_back()
                if self._is_ending:
                    return
                # Handlers that never wait must not keep the loop from its other work.
                await asyncio.sleep(0)
            sleeper: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(sleeper)
            await sleeper

    async def _execute(self, job: Job, me: "asyncio.Task[None]") -> None:
        job.interrupt = self._cancelling(job, me)
        if job.ctx.cancelled:
            ended = Ended(error="called off before it began")
        else:
            ended = await _executed(job)
        job.interrupt = None
        # A cancellation was meant for the handler, which has ended.
        while me.cancelling():
            me.uncancel()
        self._end_job(job, ended)

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
        self._is_ending = True
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        self._loop.create_task(self._stop_after(workers))

    async def _stop_after(self, workers: "list[asyncio.Task[None]]") -> None:
        """Handlers that were cancelled may have something to put in order."""
        assert self._loop is not None
        if workers:
            await asyncio.wait(workers, timeout=CLEANING_UP_SECONDS)
        self._loop.stop()


async def _executed(job: Job) -> Ended:
    with traced_on_loop(job.function, job.claimed) as tracing:
        if tracing is None:
            return await execute_async(job.function, job.claimed, job.ctx)
        try:
            await tracing.note()
        except BaseException as error:
            # Called off before the handler began.
            return failed(error)
        tracing.ended = await execute_async(job.function, job.claimed, job.ctx)
        return tracing.ended
