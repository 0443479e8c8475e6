"""AsyncOutlast: writes await the group commit, everything else hops through a few threads."""

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from outlast.app import claim
from outlast.app.aio.functions import AsyncRegistering
from outlast.app.aio.in_thread import in_thread
from outlast.app.aio.lease import AsyncLease
from outlast.app.aio.locks import AsyncLockVerbs
from outlast.app.aio.reading import AsyncReadVerbs
from outlast.app.aio.results import Results
from outlast.app.aio.subscription import AsyncEventVerbs
from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.aio.worker import AsyncWorkerVerbs
from outlast.app.app import Outlast, handle_on
from outlast.app.handle import StoreHandle
from outlast.app.tracing import Traceable
from outlast.app.waiting import work_watch
from outlast.clock import Clock
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.operator_acts import LIBRARY
from outlast.domain.task import Task
from outlast.errors import InvalidInput
from outlast.maintenance.healing import Recovery
from outlast.settings import Settings
from outlast.store.records import ClaimRequest, Statement
from outlast.store.session import Session
from outlast.tasks import enqueue
from outlast.tasks.checked_enqueue import CheckedEnqueue, Given
from outlast.tasks.functions import Functions
from outlast.tasks.settle import give_back


class _SharingOutlast(Outlast):
    """The object for threads, on the handle of the one for coroutines."""

    def __init__(self, handle: StoreHandle, functions: Functions) -> None:
        self._handle = handle
        self._functions = functions
        self._checked_enqueue = CheckedEnqueue(handle, functions, self.wait)
        self.path = handle.path


class AsyncOutlast(
    AsyncRegistering, AsyncReadVerbs, AsyncEventVerbs, AsyncLockVerbs, AsyncWorkerVerbs, Traceable
):
    """The whole contract for coroutines, on the same store, beside threads and other processes.

    Cancelling a call that waits never doubles it: what had not begun never happens, what had
    begun is waited for, and tasks that a cancelled claim was handed are given back.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        recovery: Recovery | None = None,
        logger: logging.Logger | None = None,
        guest: bool = False,
    ) -> None:
        """A guest, such as an operator's command, leaves no recovery settings in the store."""
        self._handle = handle_on(target, settings, clock, recovery, logger, is_guest=guest)
        self._functions = Functions(self._handle.serve)
        self._app = _SharingOutlast(self._handle, self._functions)
        self._pool = ThreadPool()
        self._checked_enqueue = CheckedEnqueue(
            self._handle, self._functions, self.wait, self._pool.to_its_end
        )
        self._results = Results(self._handle.look, self._pool, self._handle.now)
        self._is_open = False
        self.path = self._handle.path

    def __repr__(self) -> str:
        """Names the file."""
        return f"<AsyncOutlast {self.path}>"

    # Opening and closing

    async def open(self) -> Self:
        """Open to serve: migrate, recover, be ready. Also done by the first operation."""
        await self._pool(self._app.open)
        self._is_open = True
        return self

    async def close(self) -> None:
        """Give back the leases this object handed out, uncharged, and leave the store."""
        await self._close(None)

    async def __aenter__(self) -> Self:
        """Open to serve."""
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; leases still out when an error drives us out are charged as a crash is.

        Being cancelled is no error: it is how a loop is asked to leave, by Ctrl-C for one.
        """
        await self._close(None if isinstance(error, asyncio.CancelledError) else error)

    async def _close(self, error: BaseException | None) -> None:
        try:
            await self._results.close()
        finally:
            # Also when we are cancelled once more: what is out must be given back.
            self._is_open = False
            await self._pool.to_its_end(self._handle.close, error)
            await self._pool.close()

    async def _serve(self) -> Session:
        """The store, opened to serve; only the first call has to leave the loop for it."""
        if not self._is_open:
            await self._pool(self._handle.serve)
            self._is_open = True
        return self._handle.serve()

    # Putting work in

    async def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        id: str | None = None,
        group: str | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        max_retries: int | None = None,
        max_recoveries: int | None = None,
        idempotency_key: str | None = None,
        also: Sequence[Statement] = (),
    ) -> Task:
        """Store one task; when this returns, it survives the process and the machine."""
        options = enqueue.make_options(
            (queue, priority, group, delay, run_at, max_retries, max_recoveries, also)
        )
        function = self._functions.get(kind) if isinstance(kind, str) else None
        if function is not None:
            given = Given(options, id, idempotency_key)
            return await self._checked_enqueue.put_soon(function, function.checked(payload), given)
        if not self._is_open:
            enqueue.check(self._handle, kind, payload, options, task_id=id, key=idempotency_key)
            await self._serve()
        found = await enqueue.enqueue_soon(
            self._handle, kind, payload, options,
            task_id=id, key=idempotency_key, waits=self.wait,
        )  # fmt: skip
        if isinstance(found, Task):
            return found
        there: Task = await self._pool(enqueue.read, self._handle.serve(), found)
        return there.waiting_by(self.wait)

    enqueue_many = in_thread(Outlast.enqueue_many)

    async def retry(self, task_id: str, *, by: str | None = None, source: str = LIBRARY) -> Task:
        """Run a final task anew, as a clone that names the original in `retry_of`."""
        clone = await self.in_thread(Outlast.retry, task_id, by=by, source=source)
        return clone.waiting_by(self.wait)

    # Taking work out

    async def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[AsyncLease]:
        """Take the best eligible tasks, to be worked on now; `wait` for some if there are none."""
        request = claim.request_for(worker, limit, queue, kinds=kinds, group=group)
        return await self._claim_when_ready(request, lease, wait)

    async def prefetch(
        self,
        worker: str,
        *,
        limit: int = 1,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[AsyncLease]:
        """Like claim, for tasks that will wait: say lease.start() when each one's work begins."""
        request = claim.request_for(worker, limit, queue, kinds=kinds, group=group, started=False)
        return await self._claim_when_ready(request, lease, wait)

    async def _claim_when_ready(
        self, request: ClaimRequest, lease: Duration | None, wait: Duration | None
    ) -> list[AsyncLease]:
        timeout_seconds = 0.0 if wait is None else duration_ms(wait, "wait") / 1000
        session = await self._serve()
        claimed = await self._claim(session, request, lease)
        if claimed or not timeout_seconds:
            return claimed
        watch = work_watch(session, timeout_seconds)
        with closing(session.store.work_listener()) as listener:
            while True:
                await self._pool(watch.begin)
                claimed = await self._claim(session, request, lease)
                if claimed or watch.is_over:
                    return claimed
                while (pause := await self._pool(watch.pause_seconds)) > 0:
                    if await listener.wait_async(pause):
                        break

    async def _claim(
        self, session: Session, request: ClaimRequest, lease: Duration | None
    ) -> list[AsyncLease]:
        leases = await self._pool.undone_if_cancelled(
            partial(claim.claim, session, request, lease),
            lambda leases: give_back(session, [one.claimed for one in leases]),
        )
        return [AsyncLease(one, self._pool) for one in leases]

    take = in_thread(Outlast.take)

    async def complete_many(self, pairs: Iterable[tuple[AsyncLease, Any]]) -> list[bool]:
        """Finish many tasks in one transaction; lost leases raise after the others are stored."""
        given = list(pairs)
        if not all(
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], AsyncLease)
            for pair in given
        ):
            raise InvalidInput(
                "complete_many takes (lease, result) pairs, with leases that claim returned"
            )
        return await self.in_thread(
            Outlast.complete_many, [(lease.lease, result) for lease, result in given]
        )

    # Deciding about tasks

    cancel = in_thread(Outlast.cancel)

    async def fail(
        self, task_id: str, error: str, *, by: str | None = None, source: str = LIBRARY
    ) -> Task:
        """Fail a task by an operator's word, whoever holds it."""
        failed = await self.in_thread(Outlast.fail, task_id, error, by=by, source=source)
        return failed.waiting_by(self.wait)

    park = in_thread(Outlast.park)
    unpark = in_thread(Outlast.unpark)
    pause = in_thread(Outlast.pause)
    unpause = in_thread(Outlast.unpause)
    force = in_thread(Outlast.force)
    force_many = in_thread(Outlast.force_many)
    approve_recovery = in_thread(Outlast.approve_recovery)
    held_recoveries = in_thread(Outlast.held_recoveries)
    release_lock = in_thread(Outlast.release_lock)
    unsubscribe = in_thread(Outlast.unsubscribe)
    audit = in_thread(Outlast.audit)

    # Signs of life

    heartbeat = in_thread(Outlast.heartbeat)
    mark_dead = in_thread(Outlast.mark_dead)

    # Keeping the store

    migrate = in_thread(Outlast.migrate)

    async def resolve(self, task_id: str) -> Task | None:
        """The settled truth about a task after OutcomeUnknown; None: it was never stored."""
        found = await self.in_thread(Outlast.resolve, task_id)
        return None if found is None else found.waiting_by(self.wait)

    recover = in_thread(Outlast.recover)
    recovery_plan = in_thread(Outlast.recovery_plan)
    recovery_status = in_thread(Outlast.recovery_status)
    last_report = in_thread(Outlast.last_report)
    recovered = in_thread(Outlast.recovered)
    recovery_report = in_thread(Outlast.recovery_report)
    recovery_settings = in_thread(Outlast.recovery_settings)
    heal = in_thread(Outlast.heal)
    recovery_stats = in_thread(Outlast.recovery_stats)
    reclaim_stale = in_thread(Outlast.reclaim_stale)
    check_integrity = in_thread(Outlast.check_integrity)
    flush_wal = in_thread(Outlast.flush_wal)
