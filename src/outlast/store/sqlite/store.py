"""The store opened to serve: each verb is one operation handed to the writer."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.events import PARKED, UNPARKED
from outlast.domain.lifecycle import Cause, Outcome, Parked
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.domain.operator_acts import Signature
from outlast.domain.task import Checkpoint, Task
from outlast.errors import (
    InvalidTransition,
    LeaseLost,
    TaskNotFound,
)
from outlast.logs import logger
from outlast.store.base import Ticking
from outlast.store.commit.operation import Operation, Then
from outlast.store.new_tasks import NewTask
from outlast.store.ops import checkpoints, settle, tasks
from outlast.store.ops.events import add_event
from outlast.store.ops.mark_dead import Undertaker
from outlast.store.ops.recovery_pass import Round, Write
from outlast.store.ops.rows import task_from
from outlast.store.records import (
    Batch,
    Death,
    Grant,
    Healed,
    NewCheckpoint,
    RecoveryPolicy,
    Settlement,
    Statement,
    Trace,
)
from outlast.store.sqlite.beat import Beating
from outlast.store.sqlite.handing import Handing
from outlast.store.sqlite.locking import Locking
from outlast.store.sqlite.measuring import Measuring
from outlast.store.sqlite.operating import Operating
from outlast.store.sqlite.recovering import Recovering
from outlast.store.sqlite.subscribing import Subscribing
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import ANYBODY, LOOKING_FOR_WORK, WAITING_FOR_RESULTS

T = TypeVar("T")

# Named here because an annotation inside a function is evaluated at each call.
Ids = list[str]
Answers = list[bool]
Verdicts = list[bool | None]
Outcomes = Callable[[], Verdicts]

# Larger batches have a transaction to themselves, so that nobody small waits for them twice.
SHARED_LIMIT = 1000

_ID_OF = attrgetter("id")

log = logger("outlast.store")


class SqliteStore(Handing, Beating, Recovering, Subscribing, Locking, Measuring, Operating):
    """The verbs of the Store protocol on SQLite."""

    def add(
        self,
        new: Sequence[NewTask],
        now: Instant,
        also: Sequence[Statement] = (),
        trace: Trace | None = None,
    ) -> list[str]:
        """Insert tasks, or find those their idempotency keys already stand for; returns ids."""
        return self.add_soon(new, now, also, trace).result()

    def add_soon(
        self,
        new: Sequence[NewTask],
        now: Instant,
        also: Sequence[Statement] = (),
        trace: Trace | None = None,
    ) -> Operation[list[str]]:
        """The future of such an insertion."""
        if also or trace is not None:
            return self._add_with_more(new, now, also, trace)
        return self._submit(
            "enqueue",
            lambda tx: tasks.add_tasks(tx, new, now),
            map(_ID_OF, new),
            alone=len(new) > SHARED_LIMIT,
            together=tasks.add_together,
            inputs=(new, now),
            wakes=LOOKING_FOR_WORK,
        )

    def _add_with_more(
        self,
        new: Sequence[NewTask],
        now: Instant,
        also: Sequence[Statement],
        trace: Trace | None,
    ) -> Operation[list[str]]:
        """What brings rows of its own along is not merged with other callers'."""

        def operation(tx: Transaction) -> Ids:
            ids = tasks.add_tasks(tx, new, now)
            if trace is not None:
                tasks.add_traces(tx, new, trace)
            if also and ids == [task.id for task in new]:
                self._database.callers.run(also)
            return ids

        is_alone = bool(also) or len(new) > SHARED_LIMIT
        return self._submit(
            "enqueue", operation, map(_ID_OF, new), alone=is_alone, wakes=LOOKING_FOR_WORK
        )

    def settle(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> list[bool]:
        """End leases; False where this very lease had ended already, LeaseLost for strangers."""

        return self.settle_soon(settlements, now, also).result()

    def settle_soon(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> Then[list[bool | None], list[bool]]:
        """The future of such an ending."""

        def operation(tx: Transaction) -> Verdicts:
            answers = settle.settle_grants(tx, settlements, now)
            if also and all(answers):
                self._database.callers.run(also)
            return answers

        def finish(outcome: Outcomes) -> Answers:
            try:
                verdicts = outcome()
                self.tallies.add(FENCED_WRITES, verdicts.count(None))
                return _settled(settlements, verdicts)
            finally:
                if pending.committed:
                    # Also when its caller was cancelled and will never know.
                    self._holding.forget([settlement.grant for settlement in settlements])

        completed = all(one.cause.outcome is Outcome.COMPLETE for one in settlements)
        pending = self._submit(
            "settle",
            operation,
            (one.task_id for one in settlements),
            alone=bool(also) or len(settlements) > SHARED_LIMIT,
            together=settle.settle_together,
            inputs=(settlements, now),
            wakes=WAITING_FOR_RESULTS if completed else ANYBODY,
        )
        return pending.then(finish)

    def settle_by_id(self, task_id: str, cause: Cause, now: Instant) -> Task:
        """Move a task for somebody who holds no lease: cancel, or fail by an operator."""

        def operation(tx: Transaction) -> Task:
            settle.settle_task(tx, task_id, cause, now)
            # Read here: once it is committed, nothing may fail any more that looks like a refusal.
            (row,) = tx.rows("get_task", {"id": task_id})
            return task_from(row)

        return self._write("settle", operation, [task_id], wakes=ANYBODY)

    def renew(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """Push leases out to now plus their length; False for each that is no longer current."""
        return self.renew_soon(grants, now, lease_ms, stage, clock).result()

    def renew_soon(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> Then[list[bool], list[bool]]:
        """The future of such a renewal."""

        def operation(tx: Transaction) -> Answers:
            utc_ms, mono_ms = clock() if clock else now
            times = {"now": utc_ms, "mono": mono_ms, "lease_ms": lease_ms, "stage": stage}
            return [tx.run("renew_lease", grant._asdict() | times) == 1 for grant in grants]

        return self._submit("renew", operation).then(self._refusals_counted)

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        if not self._holding.note(grant):
            self._write("renew", lambda tx: tx.run("mark_started", grant._asdict()))

    def note_memory(self, peak_bytes: int) -> None:
        """Record how much memory this process has used at most; it survives kill -9."""
        self._holding.note_memory(peak_bytes)

    def park(self, task_id: str, reason: Parked, now: Instant) -> bool:
        """Keep a pending task from being claimed."""
        return self._change_waiting(task_id, "park_task", now, reason=reason.value)

    def unpark(self, task_id: str, now: Instant) -> bool:
        """Make a parked task eligible again; False when it was not parked."""
        return self._change_waiting(task_id, "unpark_task", now)

    def _change_waiting(self, task_id: str, name: str, now: Instant, **values: str) -> bool:
        def operation(tx: Transaction) -> bool:
            status = tx.value("status_of", {"id": task_id})
            if status is None:
                raise TaskNotFound(task_id)
            if status != "pending":
                raise InvalidTransition(
                    f"task {task_id} is {status}; only a pending task can be parked or unparked"
                )
            changed = tx.run(name, {"id": task_id, "now": now.utc_ms} | values) == 1
            if changed:
                kind = PARKED if values else UNPARKED
                add_event(tx, kind, now, dict(values), task_id=task_id)
            return changed

        return self._write("park", operation, [task_id], wakes=LOOKING_FOR_WORK)

    def add_checkpoint(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Checkpoint:
        """Append a checkpoint under a current lease."""
        return self.add_checkpoint_soon(grant, task_id, new, now).result()

    def add_checkpoint_soon(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Then[Checkpoint, Checkpoint]:
        """The future of such an appending."""

        def finish(outcome: Callable[[], Checkpoint]) -> Checkpoint:
            try:
                return outcome()
            except LeaseLost:
                self.tallies.add(FENCED_WRITES, 1)
                raise

        return self._submit(
            "checkpoint", lambda tx: checkpoints.add(tx, grant, task_id, new, now), [task_id]
        ).then(finish)

    def trim_checkpoints(self, task_id: str, keep: int, now: Instant) -> int:
        """Drop all but the newest checkpoints, sparing what a resume needs."""
        return self._write("checkpoint", lambda tx: checkpoints.trim(tx, task_id, keep))

    def purge_keys(self, now: Instant, limit: int, looks_first: bool = False) -> int:
        """Drop expired keys, but none whose task is still alive."""
        values = {"now": now.utc_ms, "limit": limit}
        if looks_first and not self._read(
            "looking for old keys", lambda tx: tx.row("keys_expired", values)
        ):
            return 0
        return self._write("purge", lambda tx: tx.run("purge_keys", values))

    def heal(
        self,
        now: Instant,
        policy: RecoveryPolicy,
        *,
        run_id: int | None = None,
        tell: Callable[[Batch], None] | None = None,
        stopped: Callable[[Healed], None] | None = None,
        is_thorough: bool = False,
    ) -> Healed:
        """Put back the tasks of holders that are gone or whose leases ran out."""
        healer = self._healer(self._heal_batch if run_id is None else self._batch_of_run)
        this = Round(
            self.incarnation_id(), now, policy, run_id, tell or _unheard, is_thorough,
            stopped=stopped or _unheard,
        )  # fmt: skip
        healed = healer.heal(this)
        self._came_up_empty = False
        return healed

    def _healer(self, write: Write) -> Undertaker:
        readers, exit_signal = self._database.readers, self._wakeups.deaths.exit_signal
        return Undertaker(write, readers, self._folder, exit_signal)

    def reclaim(
        self, now: Instant, policy: RecoveryPolicy, silent_ms: int, is_forced: bool,
        by: Signature | None = None,
    ) -> int:  # fmt: skip
        """Take back what was silent for so long, and locks that ran out; how many tasks."""
        healer = self._healer(self._heal_batch)
        this = Round(self.incarnation_id(), now, policy)
        if by is not None:
            this = this._replace(actor=by.actor, source=by.source, act="queue.reclaim")
        healer.free_unheld_locks(this)
        taken = healer.reclaim(this, silent_ms, is_forced)
        self._came_up_empty = False
        return taken

    def declare_dead(
        self, incarnation: str, now: Instant, policy: RecoveryPolicy, by: Signature, is_forced: bool
    ) -> Death | None:
        """Bury a worker by somebody's word, and put back what it held."""
        healer = self._healer(self._heal_batch)
        this = Round(self.incarnation_id(), now, policy, actor=by.actor, source=by.source)
        buried = healer.declare_dead(this, incarnation, is_forced)
        self._came_up_empty = False
        return buried

    def _heal_batch(self, context: str, operation: Callable[[Transaction], T]) -> T:
        """Batches are as long as a transaction may be, and so have it for themselves."""
        return self._write(context, operation, alone=True, wakes=ANYBODY)

    def _batch_of_run(self, context: str, operation: Callable[[Transaction], T]) -> T:
        result = self._heal_batch(context, self._with_beginning(operation))
        self._beginning = None
        return result

    def resolve(self, task_id: str, now: Instant) -> Task | None:
        """One task, after any commit whose outcome was unknown has become certain.

        A commit that failed half-way has left its frames behind the end of the log, where the
        next commit overwrites them; once that one is durable, what is not visible is gone.
        """
        self._write("resolve", lambda tx: tx.run("bump_fence"))
        return self.get(task_id)


def _unheard(what: object) -> None:
    """Nobody wants to know."""


def _settled(settlements: Sequence[Settlement], answers: Sequence[bool | None]) -> list[bool]:
    lost = [one.task_id for one, answer in zip(settlements, answers, strict=True) if answer is None]
    if lost:
        kept = answers.count(True)
        raise LeaseLost(lost, f" ({kept} others were settled)" if kept else "")
    return [answer is True for answer in answers]
