"""AsyncOutlast: writes await the group commit, everything else hops through a few threads."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial, update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from outlast.aio.functions import AsyncRegistering
from outlast.aio.hop import Hop
from outlast.aio.lease import AsyncLease
from outlast.aio.locks import AsyncLocking
from outlast.aio.results import Results
from outlast.aio.subscription import AsyncWatching
from outlast.aio.worker import Employing
from outlast.api import Outlast, handle_on
from outlast.clock import Clock
from outlast.domain.acts import LIBRARY
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.lifecycle import Status
from outlast.domain.names import checked_id
from outlast.domain.task import Task
from outlast.engine import claim, enqueue
from outlast.engine.functions import Functions
from outlast.engine.handle import StoreHandle
from outlast.engine.heal import Recovery
from outlast.engine.intake import Given, Intake
from outlast.engine.session import Session
from outlast.engine.settle import give_back
from outlast.engine.tracing import Traceable
from outlast.engine.vigil import claim_vigil
from outlast.errors import InvalidInput
from outlast.settings import Settings
from outlast.store.records import ClaimRequest, Statement

P = ParamSpec("P")
T = TypeVar("T")


def _hopping(
    verb: Callable[Concatenate[Outlast, P], T],
) -> Callable[Concatenate["AsyncOutlast", P], Coroutine[Any, Any, T]]:
    """The same verb of the object for threads, called in one of ours."""

    async def call(self: "AsyncOutlast", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.in_thread(verb, *args, **kwargs)

    update_wrapper(call, verb)
    return call


class _SharingOutlast(Outlast):
    """The object for threads, on the handle of the one for coroutines."""

    def __init__(self, handle: StoreHandle, functions: Functions) -> None:
        self._handle = handle
        self._functions = functions
        self._intake = Intake(handle, functions, self.wait)
        self.path = handle.path


class AsyncOutlast(AsyncRegistering, AsyncWatching, AsyncLocking, Employing, Traceable):
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
        self._hop = Hop()
        self._intake = Intake(self._handle, self._functions, self.wait, self._hop.to_its_end)
        self._results = Results(self._handle.look, self._hop, self._handle.now)
        self._is_open = False
        self.path = self._handle.path

    def __repr__(self) -> str:
        """Names the file."""
        return f"<AsyncOutlast {self.path}>"

    async def in_thread(
        self, verb: Callable[Concatenate[Outlast, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a verb of the object for threads, such as `Outlast.get`, in a thread of ours."""
        return await self._hop.to_its_end(verb, self._app, *args, **kwargs)

    # Opening and closing

    async def open(self) -> Self:
        """Open to serve: migrate, recover, be ready. Also done by the first operation."""
        await self._hop(self._app.open)
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
            await self._hop.to_its_end(self._handle.close, error)
            await self._hop.close()

    async def _serve(self) -> Session:
        """The store, opened to serve; only the first call has to leave the loop for it."""
        if not self._is_open:
            await self._hop(self._handle.serve)
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
        idempotency_key: str | None = None,
        also: Sequence[Statement] = (),
    ) -> Task:
        """Store one task; when this returns, it survives the process and the machine."""
        options = enqueue.make_options((queue, priority, group, delay, run_at, max_retries, also))
        function = self._functions.get(kind) if isinstance(kind, str) else None
        if function is not None:
            given = Given(options, id, idempotency_key)
            return await self._intake.put_soon(function, function.checked(payload), given)
        if not self._is_open:
            enqueue.check(self._handle, kind, payload, options, task_id=id, key=idempotency_key)
            await self._serve()
        found = await enqueue.enqueue_soon(
            self._handle, kind, payload, options,
            task_id=id, key=idempotency_key, waits=self.wait,
        )  # fmt: skip
        if isinstance(found, Task):
            return found
        there: Task = await self._hop(enqueue.read, self._handle.serve(), found)
        return there.waiting_by(self.wait)

    enqueue_many = _hopping(Outlast.enqueue_many)

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
        vigil = claim_vigil(session, timeout_seconds)
        with closing(session.store.ear(for_work=True)) as ear:
            while True:
                await self._hop(vigil.begin)
                claimed = await self._claim(session, request, lease)
                if claimed or vigil.is_over:
                    return claimed
                while (pause := await self._hop(vigil.pause_seconds)) > 0:
                    if await ear.wait_async(pause):
                        break

    async def _claim(
        self, session: Session, request: ClaimRequest, lease: Duration | None
    ) -> list[AsyncLease]:
        leases = await self._hop.undone_if_cancelled(
            partial(claim.claim, session, request, lease),
            lambda leases: give_back(session, [one.claimed for one in leases]),
        )
        return [AsyncLease(one, self._hop) for one in leases]

    take = _hopping(Outlast.take)

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

    cancel = _hopping(Outlast.cancel)

    async def fail(
        self, task_id: str, error: str, *, by: str | None = None, source: str = LIBRARY
    ) -> Task:
        """Fail a task by an operator's word, whoever holds it."""
        failed = await self.in_thread(Outlast.fail, task_id, error, by=by, source=source)
        return failed.waiting_by(self.wait)

    park = _hopping(Outlast.park)
    unpark = _hopping(Outlast.unpark)
    pause = _hopping(Outlast.pause)
    unpause = _hopping(Outlast.unpause)
    force = _hopping(Outlast.force)
    force_many = _hopping(Outlast.force_many)
    approve_recovery = _hopping(Outlast.approve_recovery)
    held_recoveries = _hopping(Outlast.held_recoveries)
    audit = _hopping(Outlast.audit)

    # Looking

    async def get(self, task_id: str) -> Task:
        """One task, or TaskNotFound."""
        return (await self.in_thread(Outlast.get, task_id)).waiting_by(self.wait)

    async def wait(self, task_id: str, timeout: Duration | None = None) -> Any:
        """A task's result, once there is one; TaskFailed, TaskCancelled or TimeoutError else."""
        return await self._results.wait_for(checked_id(task_id), timeout)

    async def tasks(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """The newest tasks, from one consistent read: a hundred unless you say otherwise."""
        found = await self.in_thread(Outlast.tasks, status, queue, group, limit)
        return [task.waiting_by(self.wait) for task in found]

    async def held_by(self, worker: str) -> list[Task]:
        """The tasks that workers of this name hold now."""
        found = await self.in_thread(Outlast.held_by, worker)
        return [task.waiting_by(self.wait) for task in found]

    async def snapshot(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
    ) -> AsyncGenerator[Task, None]:
        """Every task as it is now, newest first, one by one, whatever is written meanwhile.

        Until it is read to its end or closed, the log cannot be emptied: do not dwell on it.
        """
        found = await self.in_thread(Outlast.snapshot, status, queue, group)
        try:
            while tasks := await self._hop.to_its_end(found.more):
                for task in tasks:
                    yield task.waiting_by(self.wait)
        finally:
            await self._hop.to_its_end(found.close)

    counts = _hopping(Outlast.counts)
    backlog = _hopping(Outlast.backlog)
    stats = _hopping(Outlast.stats)
    leases = _hopping(Outlast.leases)
    paused_queues = _hopping(Outlast.paused_queues)
    ids = _hopping(Outlast.ids)
    metrics = _hopping(Outlast.metrics)
    workers = _hopping(Outlast.workers)
    is_alive = _hopping(Outlast.is_alive)
    stale_workers = _hopping(Outlast.stale_workers)
    group = _hopping(Outlast.group)
    history = _hopping(Outlast.history)
    why = _hopping(Outlast.why)
    checkpoints = _hopping(Outlast.checkpoints)
    latest_checkpoint = _hopping(Outlast.latest_checkpoint)
    checkpoint_counts = _hopping(Outlast.checkpoint_counts)
    keys = _hopping(Outlast.keys)
    schema = _hopping(Outlast.schema)
    events = _hopping(Outlast.events)
    newest_events = _hopping(Outlast.newest_events)
    subscribers = _hopping(Outlast.subscribers)
    unsubscribe = _hopping(Outlast.unsubscribe)

    locks = _hopping(Outlast.locks)
    current_lock = _hopping(Outlast.current_lock)
    is_lock_stale = _hopping(Outlast.is_lock_stale)
    release_lock = _hopping(Outlast.release_lock)

    # Signs of life

    heartbeat = _hopping(Outlast.heartbeat)
    mark_dead = _hopping(Outlast.mark_dead)

    # Keeping the store

    migrate = _hopping(Outlast.migrate)

    async def resolve(self, task_id: str) -> Task | None:
        """The settled truth about a task after OutcomeUnknown; None: it was never stored."""
        found = await self.in_thread(Outlast.resolve, task_id)
        return None if found is None else found.waiting_by(self.wait)

    recover = _hopping(Outlast.recover)
    recovery_plan = _hopping(Outlast.recovery_plan)
    recovery_status = _hopping(Outlast.recovery_status)
    last_report = _hopping(Outlast.last_report)
    recovered = _hopping(Outlast.recovered)
    recovery_report = _hopping(Outlast.recovery_report)
    recovery_settings = _hopping(Outlast.recovery_settings)
    heal = _hopping(Outlast.heal)
    recovery_stats = _hopping(Outlast.recovery_stats)
    reclaim_stale = _hopping(Outlast.reclaim_stale)
    check_integrity = _hopping(Outlast.check_integrity)
    flush_wal = _hopping(Outlast.flush_wal)
