"""Outlast: the object users hold. It opens the store when first needed and delegates each verb."""

import logging
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from outlast.app import claim
from outlast.app.events import EventVerbs
from outlast.app.handle import StoreHandle
from outlast.app.lease import Lease, ended_leases
from outlast.app.locks import LockVerbs
from outlast.app.metrics import MetricVerbs
from outlast.app.operators import OperatorVerbs
from outlast.app.process_hooks import backend
from outlast.app.recovery import RecoveryVerbs
from outlast.app.store_path import database_path
from outlast.app.tracing import Traceable
from outlast.app.waiting import claim_when_ready
from outlast.app.workers import heartbeat, mark_dead
from outlast.clock import Clock
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.operator_acts import LIBRARY
from outlast.domain.recovery import DeadWorker
from outlast.domain.task import Task
from outlast.logs import Log
from outlast.logs import logger as our_logger
from outlast.maintenance.healing import Recovery
from outlast.settings import Settings
from outlast.store.records import FlushResult, Statement
from outlast.tasks import enqueue, settle
from outlast.tasks.checked_enqueue import CheckedEnqueue, Given, checked_payloads
from outlast.tasks.functions import Functions
from outlast.tasks.registering import Registering

if TYPE_CHECKING:
    from outlast.worker.worker import Worker


class Outlast(
    Registering, OperatorVerbs, EventVerbs, RecoveryVerbs, LockVerbs, MetricVerbs, Traceable
):
    """A durable task queue on one SQLite file.

    Making the object touches nothing, so it may stand at module level. Reads open the store to
    look; everything else opens it to serve, which migrates and recovers first.
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
        self._checked_enqueue = CheckedEnqueue(self._handle, self._functions, self.wait)
        self.path = self._handle.path

    def __repr__(self) -> str:
        """Names the file."""
        return f"<Outlast {self.path}>"

    # Opening and closing

    def open(self) -> Self:
        """Open to serve: migrate, recover, be ready. Also done by the first operation."""
        self._handle.open()
        return self

    def close(self) -> None:
        """Give back the leases this object handed out, uncharged, and leave the store."""
        self._handle.close()

    def __enter__(self) -> Self:
        """Open to serve."""
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; leases still out when an error drives us out are charged as a crash is."""
        self._handle.close(error)

    def migrate(self) -> list[str]:
        """Bring the file's schema up to date; returns the names of what was applied."""
        return self._handle.migrate()

    # Putting work in

    def enqueue(
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
            return self._checked_enqueue.put(function, function.checked(payload), given)
        return enqueue.enqueue(
            self._handle, kind, payload, options,
            task_id=id, key=idempotency_key, waits=self.wait,
        )  # fmt: skip

    def enqueue_many(
        self,
        kind: str,
        payloads: Iterable[Any],
        *,
        queue: str | None = None,
        priority: int | None = None,
        id: Sequence[str] | None = None,
        group: str | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        max_retries: int | None = None,
        max_recoveries: int | None = None,
        idempotency_key: Sequence[str] | None = None,
        also: Sequence[Statement] = (),
        chunked: bool = False,
    ) -> list[str]:
        """Store many tasks of one kind in one transaction; over 100,000 only with `chunked`."""
        options = enqueue.Options(
            queue=queue, priority=priority, group=group, delay=delay, run_at=run_at,
            max_retries=max_retries, max_recoveries=max_recoveries, also=also,
        )  # fmt: skip
        function = self._functions.get(kind) if isinstance(kind, str) else None
        if function is not None:
            given = Given(options, id, idempotency_key)
            checked = checked_payloads(function, payloads)
            return self._checked_enqueue.put_many(function, checked, given, chunked)
        return enqueue.enqueue_many(
            self._handle, kind, payloads, options,
            task_ids=id, keys=idempotency_key, chunked=chunked,
        )  # fmt: skip

    # Taking work out

    def claim(
        self,
        worker: str,
        *,
        limit: int = 1,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[Lease]:
        """Take the best eligible tasks, to be worked on now; `wait` for some if there are none."""
        request = claim.request_for(worker, limit, queue, kinds=kinds, group=group)
        return claim_when_ready(self._handle.serve(), request, lease, wait)

    def prefetch(
        self,
        worker: str,
        *,
        limit: int = 1,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[Lease]:
        """Like claim, for tasks that will wait: say lease.start() when each one's work begins."""
        request = claim.request_for(worker, limit, queue, kinds=kinds, group=group, started=False)
        return claim_when_ready(self._handle.serve(), request, lease, wait)

    def take(
        self,
        limit: int = 1,
        *,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
    ) -> list[Task]:
        """LOSSY, at most once: remove tasks and return them; a crash afterwards loses them."""
        request = claim.request_for("take", limit, queue, kinds=kinds, group=group)
        return claim.take(self._handle.serve(), request)

    def complete_many(self, pairs: Iterable[tuple[Lease, Any]]) -> list[bool]:
        """Finish many tasks in one transaction; lost leases raise after the others are stored."""
        session = self._handle.serve()
        return settle.complete_many(session, ended_leases(session, pairs))

    def worker(
        self,
        *,
        name: str | None = None,
        concurrency: int = 8,
        queues: str | Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
        prefetch: int | None = None,
        shutdown: Duration | None = None,
    ) -> "Worker":
        """A worker for the functions registered here; `run()` it.

        Unless told otherwise it serves the queue `default` and those that its functions name.
        """
        from outlast.worker.worker import Worker, checked_options

        settings = self._handle.settings
        limit = settings.shutdown_seconds if shutdown is None else shutdown
        options = checked_options(
            name=name, concurrency=concurrency, queues=queues, kinds=kinds,
            prefetch=settings.prefetch if prefetch is None else prefetch,
            shutdown_seconds=duration_ms(limit, "shutdown") / 1000,
        )  # fmt: skip
        return Worker(self._handle, self._functions, options)

    # Signs of life

    def heartbeat(self, worker: str, task_ids: Sequence[str] = (), progress: Any = None) -> None:
        """Say that a worker lives, what it is at and how far; renews no lease."""
        heartbeat(self._handle, worker, task_ids, progress)

    def mark_dead(
        self,
        incarnation: str,
        by: str | None = None,
        force: bool = False,
        source: str = LIBRARY,
    ) -> DeadWorker | None:
        """Declare a stale worker dead, and put back what it holds; None if it had ended before.

        Names may be shared, so it is the incarnation that is named. Only by force is one declared
        dead that lives; it learns of it at its next write. `by` is who did it, in the record.
        """
        return mark_dead(self._handle, incarnation, by, force, source)

    # Keeping the store

    def resolve(self, task_id: str) -> Task | None:
        """The settled truth about a task after OutcomeUnknown; None: it was never stored."""
        session, task_id = self._on(task_id)
        found = session.store.tasks.resolve(task_id)
        return None if found is None else found.waiting_by(self.wait)

    def flush_wal(self, mode: str = "truncate") -> FlushResult:
        """Move the log into the main file: passive, full, restart or truncate."""
        return self._handle.serve().store.flush_wal(mode)


def handle_on(
    target: str | os.PathLike[str],
    settings: Settings | None,
    clock: Clock | None,
    recovery: Recovery | None,
    logger: logging.Logger | None,
    *,
    is_guest: bool = False,
) -> StoreHandle:
    """How a store will be opened; nothing is touched yet."""
    log = our_logger() if logger is None else Log(logger, {})
    path = database_path(target)
    return StoreHandle(backend, path, settings, clock, recovery, log=log, is_guest=is_guest)
