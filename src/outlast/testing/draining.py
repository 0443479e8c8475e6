"""Running tasks in the calling thread: what a worker does, one task after the other, for tests."""

import random
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from outlast.app.claim import claim, request_for
from outlast.app.lease import Lease
from outlast.app.reading import MAX_LISTED
from outlast.domain import codec
from outlast.domain.lifecycle import Parked, Status
from outlast.domain.task import Task
from outlast.errors import LeaseLost
from outlast.store.records import MAX_KINDS, Trace
from outlast.tasks.context import Context
from outlast.tasks.execute import Ended, execute, execute_async
from outlast.tasks.functions import AnyFunction, Functions
from outlast.tasks.tracing import traced

WORKER = "drain"


class HasFunctions(Protocol):
    """An `Outlast` or an `AsyncOutlast`."""

    @property
    def functions(self) -> Functions:
        """The functions registered there, by kind."""
        ...


@dataclass(slots=True)
class Drained:
    """What became of the tasks that were run: their ids, in the order of their executions."""

    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Failed for good."""
    retried: list[str] = field(default_factory=list)
    """Failed, and put back for another try."""
    lost: list[str] = field(default_factory=list)
    """Cancelled, or settled by somebody else, while they ran."""

    @property
    def executions(self) -> int:
        """How many executions there were."""
        return sum(map(len, (self.completed, self.failed, self.retried, self.lost)))


def drain(
    app: HasFunctions,
    *,
    queues: str | Sequence[str] | None = None,
    until_due: bool = False,
    limit: int = 10_000,
) -> Drained:
    """Run all tasks of registered kinds that may run now, and those they enqueue, in this thread.

    All queues are served unless some are named. With `until_due` tasks that wait for a time, such
    as retries, are run too, the earliest first, as if it had come. More than `limit` executions
    raise an AssertionError: some task probably enqueues itself for ever.
    """
    wanted = (queues,) if isinstance(queues, str) else queues
    return _Draining(app.functions, wanted, limit).run(until_due)


@contextmanager
def eager(app: HasFunctions) -> Iterator[None]:
    """Inside the block an enqueue of a registered kind stores the task and runs it at once.

    It runs in the caller's thread (an `AsyncOutlast` uses one of its own) before the enqueue
    returns, whose record shows the outcome. A failure is recorded, not raised, and retried at once
    until the budget is spent. Whatever else may run now is run too; a delayed task waits.
    """
    functions = app.functions
    before = functions.when_stored

    def run_all() -> None:
        _Draining(functions, None, limit=10_000, waits_to_retry=False).run()

    functions.when_stored = run_all
    try:
        yield
    finally:
        functions.when_stored = before


class _Draining:
    """One call of drain."""

    def __init__(
        self,
        functions: Functions,
        queues: Sequence[str] | None,
        limit: int,
        *,
        waits_to_retry: bool = True,
    ) -> None:
        self._functions = functions
        self._session = functions.serve()
        self._queues = queues
        self._limit = limit
        self._waits_to_retry = waits_to_retry
        self._drained = Drained()

    def run(self, until_due: bool = False) -> Drained:
        """Go on until nothing may run."""
        while self._run_eligible() or (until_due and self._bring_forward()):
            continue
        return self._drained

    def _run_eligible(self) -> bool:
        """Run what may run now; False if there was nothing."""
        queues = self._queues or self._queues_in_use()
        before = self._drained.executions
        while queues and (lease := self._next(queues)):
            self._run(self._functions[lease.kind], lease)
        return self._drained.executions > before

    def _next(self, queues: Sequence[str]) -> Lease | None:
        kinds = list(self._functions)
        for at in range(0, len(kinds), MAX_KINDS):
            some = kinds[at : at + MAX_KINDS]
            request = request_for(WORKER, 1, list(queues), kinds=some, group=None)
            for lease in claim(self._session, request, None):
                return lease
        return None

    def _run(self, function: AnyFunction, lease: Lease) -> None:
        if self._drained.executions >= self._limit:
            lease.release()
            raise AssertionError(
                f"{self._limit} tasks were run and there are more, such as {lease.task_id}"
                f" ({lease.kind}); does a task enqueue itself for ever? If not, raise the limit"
            )
        try:
            ended = _executed(function, lease)
        except BaseException:
            lease.release()
            raise
        try:
            self._settle(function, lease, ended)
        except LeaseLost:
            self._drained.lost.append(lease.task_id)

    def _settle(self, function: AnyFunction, lease: Lease, ended: Ended) -> None:
        if ended.error is None:
            lease.complete(None if ended.result is None else codec.decode(ended.result))
            self._drained.completed.append(lease.task_id)
            return
        wait_ms = 0
        task = self._session.store.get(lease.task_id)
        if task is not None and self._waits_to_retry:
            backoff = function.backoff(self._session.settings.backoff)
            wait_ms = backoff.delay_ms(task.retry_count, random.random())
        lease.fail(ended.error, ended.retryable, delay=wait_ms / 1000)
        task = self._session.store.get(lease.task_id)
        is_over = task is None or task.is_final
        (self._drained.failed if is_over else self._drained.retried).append(lease.task_id)

    def _queues_in_use(self) -> list[str]:
        """Queues with unfinished tasks of ours; a running one may have lost its holder."""
        found = self._ours(Status.PENDING) + self._ours(Status.RUNNING)
        return sorted({task.queue for task in found})

    def _bring_forward(self) -> bool:
        """Let the tasks that are due next run now; False if none waits for a time."""
        waiting = [
            task
            for task in self._ours(Status.PENDING)
            if task.parked is Parked.DELAY and (not self._queues or task.queue in self._queues)
        ]
        times = [task.not_before for task in waiting if task.not_before is not None]
        for task in waiting:
            if task.not_before == min(times):
                self._session.store.unpark(task.id, self._session.now())
        return bool(times)

    def _ours(self, status: Status) -> list[Task]:
        found = self._session.store.find(status, None, None, MAX_LISTED)
        return [task for task in found if task.kind in self._functions]


def _executed(function: AnyFunction, lease: Lease) -> Ended:
    ctx = Context(lease.session, lease.claimed)

    def run(_: Trace | None) -> Ended:
        if function.is_async:
            return _awaited(execute_async(function, lease.claimed, ctx))
        return execute(function, lease.claimed, ctx)

    return traced(function, lease.claimed, run)


def _awaited(execution: Coroutine[Any, Any, Ended]) -> Ended:
    """Run a coroutine in a loop of its own, and in a thread of its own if this one has a loop."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(execution)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, execution).result()
