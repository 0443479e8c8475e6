"""The reading half of the store: everything that can be asked without opening it to serve."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.lifecycle import Status
from outlast.domain.orphans import Patience
from outlast.domain.stats import Backlog, Stats
from outlast.domain.task import Checkpoint, Group, Move, Task, roll_up
from outlast.domain.worker import WorkerInfo, WorkerState
from outlast.errors import StoreReplaced
from outlast.store.ops import stats as figures
from outlast.store.ops.leases import held_among
from outlast.store.ops.listing import Listing, Wanted, newest
from outlast.store.ops.rows import checkpoint_from, key_from, move_from, task_from
from outlast.store.ops.stream import StreamReads
from outlast.store.ops.workers import Roster
from outlast.store.records import (
    Ahead,
    Grant,
    Holder,
    Horizon,
    KeyRecord,
    SchemaReport,
)
from outlast.store.sqlite import migrate
from outlast.store.sqlite.audit_reads import AuditReading
from outlast.store.sqlite.file_guard import file_id
from outlast.store.sqlite.glances import Glances
from outlast.store.sqlite.lock_reads import LockReading
from outlast.store.sqlite.metric_reads import MetricReading
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.recovery_reads import RecoveryReading
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import OpenersLock
from outlast.store.sqlite.transaction import Row, Transaction, text_array
from outlast.store.sqlite.wakeups.listener import Topic, Waiter
from outlast.store.sqlite.wakeups.notify import Wakeups

T = TypeVar("T")

AHEAD_LIMIT = 1000


class SqliteReads(RecoveryReading, StreamReads, LockReading, MetricReading, AuditReading, Glances):
    """Answers questions from consistent snapshots; changes nothing."""

    def __init__(self, readers: Readers, folder: SideFolder, openers: OpenersLock) -> None:
        self._readers = readers
        self._folder = folder
        self._openers = openers
        self._wakeups = Wakeups(folder)
        self._file_id = file_id(folder.database)
        self.closed = False

    def _refuse_replaced(self) -> None:
        if file_id(self._folder.database) != self._file_id:
            self.closed = True
            raise StoreReplaced(
                f"{self._folder.database} was replaced or removed while it was open; what it held"
                " is no longer to be seen here. Find out who did that, then open it anew"
            )

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T:
        self._refuse_replaced()
        return self._readers.read(context, query)

    def _tasks(self, name: str, **values: Any) -> list[Task]:
        rows = self._read("reading tasks", lambda tx: tx.rows(name, values))
        return [task_from(row) for row in rows]

    def incarnation_id(self) -> str:
        """This process's own incarnation, or nothing while it holds no tasks."""
        return ""

    def get(self, task_id: str) -> Task | None:
        """One task."""
        found = self._tasks("get_task", id=task_id)
        return found[0] if found else None

    def find(
        self, status: Status | None, queue: str | None, group: str | None, limit: int
    ) -> list[Task]:
        """Tasks from one consistent read, newest first."""
        wanted = Wanted(status, queue, group)
        rows = self._read("reading tasks", lambda tx: newest(tx, wanted, limit))
        return [task_from(row) for row in rows]

    def snapshot(self, status: Status | None, queue: str | None, group: str | None) -> Listing:
        """Every task of this moment, newest first, to be read on piece by piece."""
        self._refuse_replaced()
        read = self._readers.read_long("a snapshot")
        return Listing(read, Wanted(status, queue, group), self._refuse_replaced)

    def held_by(self, worker: str) -> list[Task]:
        """Tasks that workers of this name hold now."""
        return self._tasks("tasks_held_by", worker=worker)

    def counts(self, queue: str | None) -> dict[str, int]:
        """How many tasks rest in each status."""
        return self._read("counting tasks", lambda tx: figures.counts(tx, queue))

    def backlog(self, queue: str | None, limit: int) -> Backlog:
        """What is pending or running, and up to so many groups that it belongs to."""
        return self._read("counting tasks", lambda tx: figures.backlog(tx, queue, limit))

    def stats(self, now: Instant, stale_ms: int) -> Stats:
        """The store in numbers, from one consistent read."""
        return self._read("counting tasks", lambda tx: figures.stats(tx, now, stale_ms))

    def group(self, group_id: str) -> Group | None:
        """A group's roll-up."""
        known = self._read("reading a group", lambda tx: tx.value("has_group", {"group": group_id}))
        if known is None:
            return None
        values = {"group": group_id}
        rows = self._read("counting tasks", lambda tx: tx.rows("counts_of_group", values))
        counts = {status.value: 0 for status in Status} | dict(rows)
        return Group(group_id, roll_up(counts), counts)

    def history(self, task_id: str) -> list[Move] | None:
        """A task's moves, oldest first; None when there is no such task."""

        def query(tx: Transaction) -> list[Row] | None:
            known = tx.value("status_of", {"id": task_id}) is not None
            return tx.rows("history", {"id": task_id}) if known else None

        rows = self._read("reading a history", query)
        return None if rows is None else [move_from(row) for row in rows]

    def checkpoints(self, task_id: str, type: str | None, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of a task in ascending order, perhaps of one type."""
        values = {"task_id": task_id, "type": type, "limit": newest}
        rows = self._read("reading checkpoints", lambda tx: tx.rows("checkpoints_of_task", values))
        return [checkpoint_from(row) for row in reversed(rows)]

    def checkpoints_of_type(self, type: str, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of one type across all tasks, newest first."""
        values = {"type": type, "limit": newest}
        rows = self._read("reading checkpoints", lambda tx: tx.rows("checkpoints_of_type", values))
        return [checkpoint_from(row) for row in rows]

    def checkpoint_counts(self, task_id: str) -> dict[str, int]:
        """How many checkpoints of each type a task has."""
        values = {"task_id": task_id}
        return dict(
            self._read("counting checkpoints", lambda tx: tx.rows("checkpoint_counts", values))
        )

    def keys(
        self, task_id: str | None, group: str | None, status: str | None, limit: int
    ) -> list[KeyRecord]:
        """Idempotency keys of a task, of a group, or in a status; newest first."""
        name, value = next(
            (name, value)
            for name, value in (
                ("keys_of_task", task_id),
                ("keys_of_group", group),
                ("keys_by_status", status),
            )
            if value is not None
        )
        values = {"value": value, "limit": limit}
        rows = self._read("reading keys", lambda tx: tx.rows(name, values))
        return [key_from(row) for row in rows]

    def paused(self, queue: str) -> bool:
        """Whether a queue is paused."""
        return (queue,) in self._read("reading queues", lambda tx: tx.rows("paused_queues"))

    def ended_among(self, task_ids: Sequence[str]) -> list[str]:
        """Those of these tasks that are final, or are not there at all."""
        wanted = {"ids": text_array(task_ids)}
        rows = self._read("looking for results", lambda tx: tx.rows("not_ended_among", wanted))
        living = {task_id for (task_id,) in rows}
        return [task_id for task_id in task_ids if task_id not in living]

    def current_among(self, grants: Sequence[Grant]) -> list[bool]:
        """Which of these leases are current: True for each whose task is held as it says."""
        current = self._read("looking at leases", lambda tx: held_among(tx, grants))
        return [grant in current for grant in grants]

    def changes(self) -> int:
        """A number that changes with every commit, by whomever."""
        # Nobody commits any more to a file that is gone: who waits for it would wait for ever.
        self._refuse_replaced()
        return self._readers.data_version()

    def horizon(self, now: Instant) -> Horizon:
        """When the next delayed task falls due, and when the next lease ends after this moment."""
        row = self._read("looking ahead", lambda tx: tx.row("horizon", {"mono": now.mono_ms}))
        return Horizon(*(row or (None, None)))

    def held_by_row(self, row: int) -> dict[Grant, str]:
        """The leases that a worker took ahead of their work, and the ids of their tasks."""
        rows = self._read("looking for work", lambda tx: tx.rows("held_by_row", {"row": row}))
        return {Grant(*grant): task_id for *grant, task_id in rows}

    def retries_are_due(
        self, queues: Sequence[str], kinds: Sequence[str], excluding: Sequence[int]
    ) -> bool:
        """Whether tasks that were tried before wait for their next try; some rows apart."""
        values = {
            "queues": codec.encode(list(queues), "queues"),
            "kinds": codec.encode(list(kinds), "kinds"),
            "excluding": codec.encode(list(excluding), "excluding"),
        }
        found = self._read("looking for work", lambda tx: tx.value("retries_waiting", values))
        return found is not None

    def listen_for_deaths(self) -> Waiter:
        """Listen for nothing but the ends of workers on this host."""
        return self._wakeups.death_waiter()

    def ear(self, for_work: bool) -> Waiter:
        """Listen for new work, or for results."""
        return self._wakeups.waiter(frozenset({Topic.WORK if for_work else Topic.DONE}))

    def ahead_of(self, task: Task) -> Ahead:
        """How many eligible tasks of the queue would be claimed before this one."""
        values = {
            "queue": task.queue,
            "priority": task.priority,
            "id": task.id,
            "limit": AHEAD_LIMIT,
        }
        row = self._read("counting tasks ahead", lambda tx: tx.row("ahead_of", values))
        return Ahead(*(row or (0, 0)))

    def workers(self, now: Instant, patience: Patience, limit: int) -> list[WorkerInfo]:
        """Workers of all times, newest first, each judged now."""
        roster = self._roster(now, patience)
        return self._read("reading workers", lambda tx: roster.newest(tx, limit))

    def living_workers(
        self, now: Instant, patience: Patience, name: str | None
    ) -> list[WorkerInfo]:
        """The workers that are alive or stale, perhaps of one name."""
        roster = self._roster(now, patience)
        found = self._read("reading workers", lambda tx: roster.living(tx, name))
        return [one for one in found if one.state is not WorkerState.DEAD]

    def holder_of(self, task: Task, now: Instant, patience: Patience) -> Holder | None:
        """Who holds a running task, judged now."""
        row = self._read("reading a holder", lambda tx: tx.row("holder_of", {"id": task.id}))
        return None if row is None else self._roster(now, patience).holder(row)

    def _roster(self, now: Instant, patience: Patience) -> Roster:
        return Roster(self._folder, self.incarnation_id(), now, patience)

    def schema(self) -> SchemaReport:
        """The schema as it stands."""

        def query(tx: Transaction) -> SchemaReport:
            done = sorted(migrate.applied(tx.connection))
            definitions: list[Any] = tx.rows("schema_definitions")
            names = {step.number: step.name for step in migrate.all_migrations()}
            steps = tuple(f"{number:04d}_{names.get(number, 'unknown')}" for number in done)
            return SchemaReport(done[-1] if done else 0, steps, dict(definitions))

        return self._read("reading the schema", query)

    def step_aside(self) -> None:
        """Give up the openers' lock for an opening to serve in this same process."""
        self._openers.release()

    def close(self, now: Instant) -> None:
        """Stop looking."""
        self.closed = True
        self._wakeups.close()
        self._readers.close()
        self._openers.release()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no read under way, and none begun until resume()."""
        return self._readers.quiesce(timeout_seconds)

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self._readers.resume()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without closing it."""
        self.closed = True
        self._wakeups.abandon()
        self._readers.abandon()
        self._openers.release()
