"""The store opened to serve: each verb is one operation handed to the writer."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.lifecycle import WORKER, Cause, Outcome, Parked
from outlast.domain.task import Checkpoint, Task
from outlast.errors import (
    InvalidTransition,
    LeaseLost,
    OutlastError,
    SecondSqliteCopy,
    StoreReplaced,
    TaskNotFound,
)
from outlast.settings import Settings
from outlast.store.base import (
    Claimed,
    ClaimRequest,
    FlushResult,
    Grant,
    Healed,
    LeaseLength,
    NewCheckpoint,
    NewTask,
    RecoveryPolicy,
    Settlement,
    Statement,
)
from outlast.store.sqlite import checkpoints, claim, enqueue, settle
from outlast.store.sqlite.database import Database
from outlast.store.sqlite.files import SideFolder
from outlast.store.sqlite.flush import flush
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.heal import Healer
from outlast.store.sqlite.liveness import Incarnation
from outlast.store.sqlite.openers import OpenersLock
from outlast.store.sqlite.reads import SqliteReads
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

EPOCH_SHIFT = 40
GIVE_BACK = Cause(Outcome.RELEASE, WORKER)

log = logging.getLogger("outlast.store")


class SqliteStore(SqliteReads):
    """One process's serving of one file; shared by all its Outlast objects."""

    def __init__(self, folder: SideFolder, openers: OpenersLock, settings: Settings) -> None:
        self._settings = settings
        self._gate = WriteGate(folder, settings.stall_seconds, settings.write_timeout_seconds)
        self._database = Database(folder, self._gate, settings)
        super().__init__(self._database.readers, folder, openers)
        self._incarnation: Incarnation | None = None
        self._holders: dict[str, int] = {}
        self._came_up_empty = False
        self._doubtful: list[Settlement] = []
        self._flushed_pages = 0
        self._mutex = threading.Lock()
        epoch = self._read("reading the epoch", lambda tx: tx.value("get_meta", {"key": "epoch"}))
        self._token_floor = int(epoch or 0) << EPOCH_SHIFT

    def incarnation_id(self) -> str:
        """This process's own incarnation, or nothing while it holds no tasks."""
        return self._incarnation.id if self._incarnation else ""

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

    def claim(self, request: ClaimRequest, now: Instant, lease_ms: LeaseLength) -> list[Claimed]:
        """Move the best eligible tasks to running and hand them out."""
        if self._came_up_empty and not self._doubtful and not self._anything_eligible(request, now):
            return []
        incarnation = self._own_incarnation()
        registered: dict[str, int] = {}
        task_ids: list[str] = []
        doubtful, self._doubtful = self._doubtful, []

        def operation(tx: Transaction) -> list[Claimed]:
            settle.settle_grants(tx, doubtful, now)
            times = {"now": now.utc_ms, "mono": now.mono_ms}
            holder = self._holders.get(request.worker) or tx.value(
                "register_worker", incarnation.registration(request.worker) | times
            )
            registered[request.worker] = holder
            terms = claim.Claim(request, holder, self._token_floor, now, lease_ms)
            claimed = claim.claim_tasks(tx, terms)
            task_ids.extend(one.task_id for one in claimed)
            doubtful.extend(Settlement(one.grant, one.task_id, GIVE_BACK) for one in claimed)
            return claimed

        try:
            claimed = self._write("claim", operation, task_ids)
        except BaseException:
            # If it did commit, nobody holds these leases: the next claim gives them back first.
            self._doubtful += doubtful
            raise
        self._holders.update(registered)
        self._came_up_empty = not claimed
        return claimed

    def _anything_eligible(self, request: ClaimRequest, now: Instant) -> bool:
        """An idle poller asks by reading, so that it never stands in a writer's way."""
        return self._read("looking for work", lambda tx: claim.anything_eligible(tx, request, now))

    def _own_incarnation(self) -> Incarnation:
        """Made when this process first holds something; its lock file is there before its row."""
        with self._mutex:
            if self._incarnation is None:
                self._incarnation = Incarnation(self._folder)
            return self._incarnation

    def take(self, request: ClaimRequest, now: Instant) -> list[Task]:
        """Remove the best eligible tasks and return them: at most once, lost if you crash."""
        return self._write("claim", lambda tx: claim.take_tasks(tx, request, now))

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
            self._forget_start(settlement.grant)
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
        self, grants: Sequence[Grant], now: Instant, lease_ms: int, stage: str | None = None
    ) -> list[bool]:
        """Push leases out to now plus their length; False for each that is no longer current."""
        times = {"now": now.utc_ms, "mono": now.mono_ms, "lease_ms": lease_ms, "stage": stage}
        return self._write(
            "renew",
            lambda tx: [tx.run("renew_lease", grant._asdict() | times) == 1 for grant in grants],
        )

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        if self._incarnation is None or not self._incarnation.lock_file.note(grant):
            self._write("renew", lambda tx: tx.run("mark_started", grant._asdict()))

    def _forget_start(self, grant: Grant) -> None:
        if self._incarnation is not None:
            self._incarnation.lock_file.clear(grant.seq)

    def park(self, task_id: str, reason: Parked, now: Instant) -> bool:
        """Keep a pending task from being claimed."""
        return self._change_waiting(task_id, "park_task", {"id": task_id, "reason": reason.value})

    def unpark(self, task_id: str, now: Instant) -> bool:
        """Make a parked task eligible again; False when it was not parked."""
        return self._change_waiting(task_id, "unpark_task", {"id": task_id})

    def _change_waiting(self, task_id: str, name: str, values: dict[str, str]) -> bool:
        def operation(tx: Transaction) -> bool:
            status = tx.value("status_of", {"id": task_id})
            if status is None:
                raise TaskNotFound(task_id)
            if status != "pending":
                raise InvalidTransition(
                    f"task {task_id} is {status}; only a pending task can be parked or unparked"
                )
            return tx.run(name, values) == 1

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

    def flush_wal(self, mode: str) -> FlushResult:
        """Move the log's content into the main file."""
        writer = self._database.writer
        return writer.exclusively("flushing the WAL", lambda connection: flush(connection, mode))

    def _write(
        self, context: str, operation: Callable[[Transaction], T], task_ids: Iterable[str] = ()
    ) -> T:
        try:
            result = self._database.writer.run(context, operation, task_ids)
        except SecondSqliteCopy:
            self._reconnect()
            raise
        except StoreReplaced:
            self.closed = True
            raise
        self._flush_if_due()
        return result

    def _flush_if_due(self) -> None:
        """A failed routine flush is logged and tried again; the commit before it stands."""
        pages = self._database.writer.wal_pages
        restarted = pages < self._flushed_pages
        grown_pages = pages if restarted else pages - self._flushed_pages
        if grown_pages < self._settings.flush_pages:
            return
        limit_pages = self._settings.wal_limit_bytes // 4096
        try:
            self.flush_wal("truncate" if pages >= limit_pages else "passive")
        except OutlastError as error:
            log.warning("flushing the WAL failed and will be tried again: %s", error)
        self._flushed_pages = pages

    def _reconnect(self) -> None:
        """After the process lost its locks, only new connections know what they hold."""
        self._database.close()
        self._database = Database(self._folder, self._gate, self._settings)
        self._readers = self._database.readers

    def close(self, now: Instant) -> None:
        """Put back what is still held, leave the workers' list, flush, and let go of the files."""
        if self.closed:
            self._let_go()
            return
        try:
            if self._incarnation is not None:
                self._leave(self._incarnation, now)
            self.flush_wal("truncate")
        except OutlastError as error:
            log.warning("closing the store: %s; recovery will see to the rest", error)
        self._let_go()

    def _leave(self, incarnation: Incarnation, now: Instant) -> None:
        def operation(tx: Transaction) -> None:
            values = {"incarnation": incarnation.id, "limit": -1}
            held = [settle.Standing(*row) for row in tx.rows("situations_of_incarnation", values)]
            settle.move(tx, [(standing, GIVE_BACK, None) for standing in held], now)
            ending = {"incarnation": incarnation.id, "state": "left", "now": now.utc_ms}
            tx.run("end_worker", ending)

        self._write("close", operation)

    def _let_go(self) -> None:
        self.closed = True
        self._database.close()
        if self._incarnation is not None:
            self._incarnation.lock_file.remove()
            self._incarnation = None
        self._gate.close()
        self._openers.release()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without closing or unlocking it."""
        self._database.abandon()
        if self._incarnation is not None:
            self._incarnation.lock_file.close()
        self._gate.close()
        super().abandon()
