"""The verbs of tasks: stored, found, listed, parked, and moved by those who hold no lease."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from outlast.clock import Instant
from outlast.domain.events import PARKED, UNPARKED
from outlast.domain.lifecycle import Cause, Parked, Status
from outlast.domain.task import Group, Move, Task, roll_up
from outlast.errors import InvalidTransition, TaskNotFound
from outlast.store.access import Access, is_crowd
from outlast.store.commit.operation import Operation
from outlast.store.new_tasks import NewTask
from outlast.store.ops import enqueue, settle
from outlast.store.ops.events import add_event
from outlast.store.ops.listing import Listing, Wanted, newest
from outlast.store.ops.rows import move_from, task_from
from outlast.store.records import Ahead, Statement, Trace
from outlast.store.topics import ANYBODY, LOOKING_FOR_WORK
from outlast.store.transaction import Row, Transaction

AHEAD_LIMIT = 1000

# Named here because an annotation inside a function is evaluated at each call.
Ids = list[str]

_ID_OF = attrgetter("id")
_BEYOND_ALL = "\U0010ffff"


class Tasks:
    """Tasks as rows of the store. Each verb that writes is one durable transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access

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
        return Operation(
            self._access.queue,
            "enqueue",
            lambda tx: enqueue.add_tasks(tx, new, now),
            map(_ID_OF, new),
            is_crowd(new),
            enqueue.add_together,
            (new, now),
            LOOKING_FOR_WORK,
            as_statement=enqueue.as_statement,
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
            ids = enqueue.add_tasks(tx, new, now)
            if trace is not None:
                enqueue.add_traces(tx, new, trace)
            if also and ids == [task.id for task in new]:
                self._access.engine.run_user_statements(also)
            return ids

        is_alone = bool(also) or is_crowd(new)
        return self._access.submit(
            "enqueue", operation, map(_ID_OF, new), alone=is_alone, wakes=LOOKING_FOR_WORK
        )

    def settle_by_id(self, task_id: str, cause: Cause, now: Instant) -> Task:
        """Move a task for somebody who holds no lease: cancel, or fail by an operator."""

        def operation(tx: Transaction) -> Task:
            settle.settle_task(tx, task_id, cause, now)
            # Read here: once it is committed, nothing may fail any more that looks like a refusal.
            (row,) = tx.rows("get_task", {"id": task_id})
            return task_from(row)

        return self._access.write("settle", operation, [task_id], wakes=ANYBODY)

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

        return self._access.write("park", operation, [task_id], wakes=LOOKING_FOR_WORK)

    def resolve(self, task_id: str) -> Task | None:
        """One task, after any commit whose outcome was unknown has become certain.

        A commit that failed half-way has left its frames behind the end of the WAL, where the
        next commit overwrites them; once that one is durable, what is not visible is gone.
        """
        self._access.write("resolve", lambda tx: tx.run("bump_fence"))
        return self.get(task_id)

    def _tasks(self, name: str, **values: Any) -> list[Task]:
        rows = self._access.read("reading tasks", lambda tx: tx.rows(name, values))
        return [task_from(row) for row in rows]

    def get(self, task_id: str) -> Task | None:
        """One task."""
        found = self._tasks("get_task", id=task_id)
        return found[0] if found else None

    def find(
        self, status: Status | None, queue: str | None, group: str | None, limit: int
    ) -> list[Task]:
        """Tasks from one consistent read, newest first."""
        wanted = Wanted(status, queue, group)
        rows = self._access.read("reading tasks", lambda tx: newest(tx, wanted, limit))
        return [task_from(row) for row in rows]

    def snapshot(self, status: Status | None, queue: str | None, group: str | None) -> Listing:
        """Every task of this moment, newest first, to be read on piece by piece."""
        read = self._access.engine.read_long("a snapshot")
        return Listing(read, Wanted(status, queue, group))

    def held_by(self, worker: str) -> list[Task]:
        """Tasks that workers of this name hold now."""
        return self._tasks("tasks_held_by", worker=worker)

    def group(self, group_id: str) -> Group | None:
        """A group's roll-up."""
        known = self._access.read(
            "reading a group", lambda tx: tx.value("has_group", {"group": group_id})
        )
        if known is None:
            return None
        values = {"group": group_id}
        rows = self._access.read("counting tasks", lambda tx: tx.rows("counts_of_group", values))
        counts = {status.value: 0 for status in Status} | dict(rows)
        return Group(group_id, roll_up(counts), counts)

    def history(self, task_id: str) -> list[Move] | None:
        """A task's moves, oldest first; None when there is no such task."""

        def query(tx: Transaction) -> list[Row] | None:
            known = tx.value("status_of", {"id": task_id}) is not None
            return tx.rows("history", {"id": task_id}) if known else None

        rows = self._access.read("reading a history", query)
        return None if rows is None else [move_from(row) for row in rows]

    def ended_among(self, task_ids: Sequence[str]) -> list[str]:
        """Those of these tasks that are final, or are not there at all."""
        # No task has an id with a NUL, which cannot be bound in an array.
        possible = [task_id for task_id in task_ids if "\0" not in task_id]
        rows = self._access.read(
            "looking for results",
            lambda tx: tx.rows("not_ended_among", {"ids": tx.texts(possible)}),
        )
        living = {task_id for (task_id,) in rows}
        return [task_id for task_id in task_ids if task_id not in living]

    def ahead_of(self, task: Task) -> Ahead:
        """How many eligible tasks of the queue would be claimed before this one."""
        values = {
            "queue": task.queue,
            "priority": task.priority,
            "id": task.id,
            "limit": AHEAD_LIMIT,
        }
        row = self._access.read("counting tasks ahead", lambda tx: tx.row("ahead_of", values))
        return Ahead(*(row or (0, 0)))

    def ids_beginning(self, start: str, limit: int) -> list[str]:
        """The ids of tasks that begin so, in their order."""
        values = {"first": start, "beyond": start + _BEYOND_ALL, "limit": limit}
        rows = self._access.read("looking for ids", lambda tx: tx.rows("ids_beginning", values))
        return [task_id for (task_id,) in rows]
