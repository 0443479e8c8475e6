"""The store opened to serve: each verb is one operation handed to the writer."""

import logging
from collections.abc import Sequence
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.lifecycle import Cause, Parked
from outlast.domain.task import Checkpoint, Task
from outlast.errors import (
    InvalidTransition,
    LeaseLost,
    TaskNotFound,
)
from outlast.store.base import (
    Claimed,
    ClaimRequest,
    Grant,
    Healed,
    LeaseLength,
    NewCheckpoint,
    NewTask,
    RecoveryPolicy,
    Settlement,
    Statement,
    Ticking,
)
from outlast.store.sqlite import checkpoints, claim, enqueue, settle
from outlast.store.sqlite.heal import Healer
from outlast.store.sqlite.holding import DeclaredDead
from outlast.store.sqlite.serving import GIVE_BACK, Serving
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

log = logging.getLogger("outlast.store")


class SqliteStore(Serving):
    """The verbs of the Store protocol on SQLite."""

    def add(
        self, new: Sequence[NewTask], now: Instant, also: Sequence[Statement] = ()
    ) -> list[str]:
        """Insert tasks, or find those their idempotency keys already stand for; returns ids."""

        def operation(tx: Transaction) -> list[str]:
            ids = enqueue.add_tasks(tx, new, now)
            if ids == [task.id for task in new]:
                self._database.callers.run(also)
            return ids

        return self._write("enqueue", operation, (task.id for task in new))

    def claim(
        self,
        request: ClaimRequest,
        now: Instant,
        lease_ms: LeaseLength,
        clock: Ticking | None = None,
    ) -> list[Claimed]:
        """Move the best eligible tasks to running and hand them out."""
        if (
            self._came_up_empty
            and not self._holding.doubtful
            and not self._anything_eligible(request, now)
        ):
            return []
        with self._holding.claiming:
            try:
                return self._claim(request, now, lease_ms, clock)
            except DeclaredDead:
                log.warning("this process was declared dead by another and begins anew")
                self._holding.begin_anew()
                return self._claim(request, now, lease_ms, clock)

    def _claim(
        self, request: ClaimRequest, now: Instant, lease_ms: LeaseLength, clock: Ticking | None
    ) -> list[Claimed]:
        """One claim at a time, so that grants in doubt are never another thread's new ones."""
        holding = self._holding
        task_ids: list[str] = []
        doubtful, holding.doubtful = holding.doubtful, []
        holding.incarnation()

        def operation(tx: Transaction) -> tuple[int, list[Claimed] | None]:
            moment = clock() if clock else now
            settle.settle_grants(tx, doubtful, moment)
            row = holding.row(tx, request.worker, moment)
            terms = claim.Claim(request, row, self._token_floor, moment, lease_ms)
            claimed = claim.claim_tasks(tx, terms)
            task_ids.extend(one.task_id for one in claimed or ())
            doubtful.extend(Settlement(one.grant, one.task_id, GIVE_BACK) for one in claimed or ())
            return row, claimed

        claimed: list[Claimed] | None = None
        try:
            while claimed is None:
                row, claimed = self._write("claim", operation, task_ids)
                holding.remember(request.worker, row)
        except BaseException:
            # If it did commit, nobody holds these leases: the next claim gives them back first.
            holding.doubtful += doubtful
            raise
        self._came_up_empty = not claimed
        return claimed

    def _anything_eligible(self, request: ClaimRequest, now: Instant) -> bool:
        """An idle poller asks by reading, so that it never stands in a writer's way."""
        return self._read("looking for work", lambda tx: claim.anything_eligible(tx, request, now))

    def take(self, request: ClaimRequest, now: Instant) -> list[Task]:
        """Remove the best eligible tasks and return them: at most once, lost if you crash."""
        taken: list[Task] | None = None
        while taken is None:
            taken = self._write("claim", lambda tx: claim.take_tasks(tx, request, now))
        return taken

    def settle(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> list[bool]:
        """End leases; False where this very lease had ended already, LeaseLost for strangers."""

        def operation(tx: Transaction) -> tuple[list[bool], list[str]]:
            answers, lost = settle.settle_grants(tx, settlements, now)
            if also and all(answers):
                self._database.callers.run(also)
            return answers, lost

        answers, lost = self._write("settle", operation, (one.task_id for one in settlements))
        for settlement in settlements:
            self._holding.forget(settlement.grant)
        if lost:
            kept = sum(answers)
            raise LeaseLost(lost, f" ({kept} others were settled)" if kept else "")
        return answers

    def settle_by_id(self, task_id: str, cause: Cause, now: Instant) -> Task:
        """Move a task for somebody who holds no lease: cancel, or fail by an operator."""
        self._write("settle", lambda tx: settle.settle_task(tx, task_id, cause, now), [task_id])
        return self._existing(task_id)

    def _existing(self, task_id: str) -> Task:
        found = self.get(task_id)
        if found is None:
            raise TaskNotFound(task_id)
        return found

    def renew(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """Push leases out to now plus their length; False for each that is no longer current."""

        def operation(tx: Transaction) -> list[bool]:
            utc_ms, mono_ms = clock() if clock else now
            times = {"now": utc_ms, "mono": mono_ms, "lease_ms": lease_ms, "stage": stage}
            return [tx.run("renew_lease", grant._asdict() | times) == 1 for grant in grants]

        return self._write("renew", operation)

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        if not self._holding.note(grant):
            self._write("renew", lambda tx: tx.run("mark_started", grant._asdict()))

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
            return tx.run(name, {"id": task_id, "now": now.utc_ms} | values) == 1

        return self._write("park", operation, [task_id])

    def pause(self, queue: str, now: Instant) -> bool:
        """Hand out nothing from a queue; False when it was paused already."""
        values = {"queue": queue, "now": now.utc_ms}
        return self._write("pause", lambda tx: tx.run("pause_queue", values)) == 1

    def unpause(self, queue: str, now: Instant) -> bool:
        """Hand out tasks of a queue again; False when it was not paused."""
        return self._write("pause", lambda tx: tx.run("unpause_queue", {"queue": queue})) == 1

    def add_checkpoint(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Checkpoint:
        """Append a checkpoint under a current lease."""
        return self._write(
            "checkpoint", lambda tx: checkpoints.add(tx, grant, task_id, new, now), [task_id]
        )

    def trim_checkpoints(self, task_id: str, keep: int, now: Instant) -> int:
        """Drop all but the newest checkpoints, sparing what a resume needs."""
        return self._write("checkpoint", lambda tx: checkpoints.trim(tx, task_id, keep))

    def purge_keys(self, now: Instant, limit: int) -> int:
        """Drop expired keys, but none whose task is still alive."""
        values = {"now": now.utc_ms, "limit": limit}
        return self._write("purge", lambda tx: tx.run("purge_keys", values))

    def heal(self, now: Instant, policy: RecoveryPolicy) -> Healed:
        """Put back the tasks of holders that are gone or whose leases ran out."""
        healer = Healer(self._write, self._database.readers, self._folder)
        healed = healer.heal(self.incarnation_id(), now, policy)
        self._came_up_empty = False
        return healed

    def resolve(self, task_id: str, now: Instant) -> Task | None:
        """One task, after any commit whose outcome was unknown has become certain.

        A commit that failed half-way has left its frames behind the end of the log, where the
        next commit overwrites them; once that one is durable, what is not visible is gone.
        """
        self._write("resolve", lambda tx: tx.run("bump_fence"))
        return self.get(task_id)
