"""Outlast with a record of every call: what experiments drive in place of an `Outlast`.

A call is written down before it is made and again when it is answered. Errors of Outlast are an
answer too and are swallowed here, so that what is driven goes on after a fault, as programs do.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from outlast.clock import Clock, SystemClock
from outlast.domain.duration import Duration
from outlast.errors import LeaseLost, OutcomeUnknown, OutlastError
from outlast_lab.inside import look_for_the_dead, store_of
from outlast_lab.record.history import ANSWERED, ASKS, LEFT, Line, Write, host_seconds

if TYPE_CHECKING:
    from outlast.app.app import Outlast
    from outlast.app.lease import Lease

Statement = tuple[str, Sequence[Any]]

# A call is known by its worker and this number, in the records of many processes together.
_numbers = count()


class Witness:
    """The verbs of one `Outlast`, as one worker uses them; every call leaves two lines."""

    def __init__(
        self,
        app: "Outlast",
        worker: str,
        write: Write,
        clock: Clock | None = None,
        *,
        names: set[str] | None = None,
    ) -> None:
        """`clock` is the one the app was given, if any; `names` are all that share the app."""
        self.app = app
        self.worker = worker
        self._write = write
        self._clock = clock or SystemClock()
        self._names = set() if names is None else names
        self._names.add(worker)

    def named(self, worker: str) -> "Witness":
        """The same object in the hands of another worker."""
        return Witness(self.app, worker, self._write, self._clock, names=self._names)

    def call(
        self,
        verb: str,
        arguments: dict[str, Any],
        action: Callable[[], Any],
        told: Callable[[Any], Any] = lambda value: None,
    ) -> Any:
        """Make any call on the record; `told` is what of its value goes into the line."""
        number = self._ask(verb, arguments)
        value = None
        try:
            value = action()
        except Exception as error:
            line = self._complaint(number, error)
        else:
            line = self._answer(number, "done", told(value))
        self._write(line)
        return value

    async def acall(
        self,
        verb: str,
        arguments: dict[str, Any],
        action: Awaitable[Any],
        told: Callable[[Any], Any] = lambda value: None,
    ) -> Any:
        """The same for a call that is awaited."""
        number = self._ask(verb, arguments)
        value = None
        try:
            value = await action
        except Exception as error:
            line = self._complaint(number, error)
        else:
            line = self._answer(number, "done", told(value))
        self._write(line)
        return value

    def _ask(self, verb: str, arguments: dict[str, Any]) -> str:
        number = f"{os.getpid()}.{next(_numbers)}"
        self._write([ASKS, number, self.worker, verb, arguments, *self._moment()])
        return number

    def _complaint(self, number: str, error: Exception) -> Line:
        outcome = "raised"
        if isinstance(error, OutlastError):
            outcome = "unknown" if isinstance(error, OutcomeUnknown) else "refused"
        return self._answer(number, outcome, _in_words(error))

    def _answer(self, number: str, outcome: str, value: Any) -> Line:
        return [ANSWERED, number, self.worker, outcome, value, *self._moment()]

    def _moment(self) -> tuple[float, int]:
        return host_seconds(), self._clock.now().mono_ms

    # Opening and closing

    def open(self) -> None:
        """Open to serve: migrate and recover."""
        self.call("open", {}, self.app.open)

    def close(self) -> None:
        """Leave the store; the leases that are out are given back."""
        self.leaving()
        self.call("close", {}, self.app.close)

    def leaving(self) -> None:
        """Write down that all workers of this object are about to leave."""
        for name in sorted(self._names):
            self._write([LEFT, name, host_seconds()])

    def migrate(self) -> None:
        """Bring the schema up to date."""
        self.call("migrate", {}, self.app.migrate, told=lambda value: value)

    # Putting work in

    def enqueue(self, task_id: str, payload: Any = None, kind: str = "work", **options: Any) -> Any:
        """Store one task under an id of our own, so that it can be asked for afterwards."""
        arguments = _asked([task_id], [payload], options)
        return self.call(
            "enqueue",
            arguments,
            lambda: self.app.enqueue(kind, payload, id=task_id, **options),
            lambda task: [task.id],
        )

    def enqueue_many(
        self, task_ids: Sequence[str], payloads: Sequence[Any], kind: str = "work", **options: Any
    ) -> list[str]:
        """Store many tasks in one transaction."""
        arguments = _asked(list(task_ids), list(payloads), options)
        stored = self.call(
            "enqueue_many",
            arguments,
            lambda: self.app.enqueue_many(kind, payloads, id=list(task_ids), **options),
            lambda ids: ids,
        )
        return stored or []

    def retry(self, task_id: str) -> Any:
        """Run a final task anew, as a clone."""
        return self.call(
            "retry", {"ids": [task_id]}, lambda: self.app.retry(task_id), lambda task: [task.id]
        )

    # Taking work out

    def claim(self, **options: Any) -> "list[Lease]":
        """Take tasks to be worked on now."""
        return self._hand_out("claim", self.app.claim, options)

    def prefetch(self, **options: Any) -> "list[Lease]":
        """Take tasks that will wait until start()."""
        return self._hand_out("prefetch", self.app.prefetch, options)

    def _hand_out(self, verb: str, claim: Callable[..., Any], options: Any) -> "list[Lease]":
        def told(leases: "list[Lease]") -> Any:
            return [[one.task_id, one.token, one.attempt, one.lease_ms] for one in leases]

        leases = self.call(verb, _plain(options), lambda: claim(self.worker, **options), told)
        return leases or []

    def take(self, limit: int = 1, **options: Any) -> list[Any]:
        """Remove tasks at most once."""
        tasks = self.call(
            "take",
            {"limit": limit, **_plain(options)},
            lambda: self.app.take(limit, **options),
            lambda tasks: [task.id for task in tasks],
        )
        return tasks or []

    # By a lease; None stands for one that was not handed out

    def start(self, lease: "Lease | None") -> Any:
        """The work of a prefetched task begins."""
        return self._held("start", lease, {}, lambda one: one.start())

    def renew(self, lease: "Lease | None", stage: str | None = None) -> Any:
        """Push the lease out."""
        return self._held("renew", lease, {}, lambda one: one.renew(stage=stage))

    def checkpoint(self, lease: "Lease | None", type: str, data: Any, metadata: Any = None) -> Any:
        """Append a record of progress."""
        arguments = {"type": type, "data": data}
        return self._held(
            "checkpoint", lease, arguments, lambda one: one.checkpoint(type, data, metadata)
        )

    def complete(
        self, lease: "Lease | None", result: Any = None, also: Sequence[Statement] = ()
    ) -> Any:
        """Finish a task."""
        return self._held(
            "complete", lease, {"result": result}, lambda one: one.complete(result, also)
        )

    def complete_many(self, pairs: "Iterable[tuple[Lease, Any]]") -> Any:
        """Finish many tasks in one transaction."""
        given = list(pairs)
        arguments = {
            "leases": [[lease.task_id, lease.token] for lease, _ in given],
            "results": [result for _, result in given],
        }

        def complete() -> Any:
            try:
                return [bool(one) for one in self.app.complete_many(given)], []
            except LeaseLost as error:
                # Those that were not lost are stored, and the error names the others.
                lost = set(error.task_ids)
                return [lease.task_id not in lost for lease, _ in given], list(error.task_ids)

        return self.call("complete_many", arguments, complete, lambda value: value[0])

    def fail(self, lease: "Lease | None", error: str | BaseException, **options: Any) -> Any:
        """Record a failure."""
        return self._held("fail", lease, _plain(options), lambda one: one.fail(error, **options))

    def release(self, lease: "Lease | None", **options: Any) -> Any:
        """Hand the task back unspent."""
        return self._held("release", lease, _plain(options), lambda one: one.release(**options))

    def park(self, lease: "Lease | None", reason: str) -> Any:
        """Hand the task back to wait for something."""
        return self._held("park", lease, {"reason": reason}, lambda one: one.park(reason))

    def _held(
        self,
        verb: str,
        lease: "Lease | None",
        arguments: dict[str, Any],
        action: "Callable[[Lease], Any]",
    ) -> Any:
        if lease is None:
            return None
        held = {"ids": [lease.task_id], "token": lease.token, **arguments}
        return self.call(verb, held, lambda: action(lease), lambda value: value is not False)

    # By an operator

    def cancel(self, task_id: str) -> Any:
        """Stop a task for good."""
        return self._operated("cancel", task_id, lambda: self.app.cancel(task_id))

    def fail_task(self, task_id: str, error: str) -> Any:
        """Fail a task, whoever holds it."""
        return self._operated("fail_task", task_id, lambda: self.app.fail(task_id, error))

    def park_task(self, task_id: str, reason: str = "hold") -> Any:
        """Keep a pending task from being claimed."""
        return self._operated("park_task", task_id, lambda: self.app.park(task_id, reason))

    def unpark_task(self, task_id: str) -> Any:
        """Let a parked task run."""
        return self._operated("unpark_task", task_id, lambda: self.app.unpark(task_id))

    def resolve(self, task_id: str) -> Any:
        """Ask what became of a task whose outcome was unknown."""
        return self.call(
            "resolve",
            {"ids": [task_id]},
            lambda: self.app.resolve(task_id),
            lambda task: None if task is None else task.status.value,
        )

    def _operated(self, verb: str, task_id: str, action: Callable[[], Any]) -> Any:
        return self.call(verb, {"ids": [task_id]}, action, lambda value: value is not False)

    # The store as a whole

    def trim_checkpoints(self, task_id: str, keep: int) -> Any:
        """Drop all but the newest records of progress of a task."""
        return self.call(
            "trim_checkpoints",
            {"ids": [task_id], "keep": keep},
            lambda: store_of(self.app).checkpoints.trim(task_id, keep),
        )

    def heal(self) -> Any:
        """Put back what dead holders and expired leases left."""
        return self.call("heal", {}, self.app.heal)

    def recover(self) -> Any:
        """The pass of start-up once more: on record, so its run can be asked for afterwards."""
        return self.call(
            "recover", {}, self.app.recover,
            lambda run: [run.run_id, run.tasks_put_back, run.tasks_failed],
        )  # fmt: skip

    def detect(self) -> Any:
        """One look of the detector, which otherwise looks by a clock of its own."""
        return self.call("detect", {}, lambda: look_for_the_dead(self.app))

    def reclaim_stale(self, silent: Duration, force: bool = False) -> Any:
        """Take back what is silent for so long, by force from the living too."""
        given = {"silent": silent, "force": force}
        reclaim = self.app.reclaim_stale
        return self.call("reclaim_stale", given, lambda: reclaim(silent, force), lambda n: n)

    def flush(self, mode: str = "truncate") -> Any:
        """Move the log into the main file."""
        return self.call("flush", {"mode": mode}, lambda: self.app.flush_wal(mode))

    def pause(self, queue: str) -> Any:
        """Hand out nothing from a queue."""
        return self.call("pause", {"queue": queue}, lambda: self.app.pause(queue))

    def unpause(self, queue: str) -> Any:
        """Hand out tasks of a queue again."""
        return self.call("unpause", {"queue": queue}, lambda: self.app.unpause(queue))

    def heartbeat(self, task_ids: Sequence[str] = (), progress: Any = None) -> Any:
        """Say that the worker lives."""
        return self.call(
            "heartbeat",
            {"ids": list(task_ids)},
            lambda: self.app.heartbeat(self.worker, task_ids, progress),
        )


def _asked(ids: list[str], payloads: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    return {"ids": ids, "payloads": payloads, **_plain(options)}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list | None)


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
