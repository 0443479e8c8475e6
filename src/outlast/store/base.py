"""The Store protocol: the verbs every backend answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from outlast.clock import Instant
from outlast.domain.lifecycle import Cause, Parked, Status
from outlast.domain.task import Checkpoint, Group, Move, Task
from outlast.settings import Settings
from outlast.store.future import Ear, Future
from outlast.store.records import (
    Claimed,
    ClaimRequest,
    FlushResult,
    Grant,
    Healed,
    Horizon,
    KeyRecord,
    NewCheckpoint,
    NewTask,
    RecoveryPolicy,
    SchemaReport,
    Settlement,
    Statement,
)

Ticking = Callable[[], Instant]


class LeaseLength(Protocol):
    """How long the lease of a claimed kind lasts."""

    def __call__(self, kind: str) -> int:
        """The length in milliseconds."""
        ...


class StoreReads(Protocol):
    """What can be asked of a store that was opened only to look."""

    @property
    def closed(self) -> bool:
        """Whether the store had to give up, and must be opened again."""
        ...

    def healing_is_due(self, now: Instant) -> bool:
        """Whether heal would find anything; reads only."""
        ...

    def orphans_are_there(self, now: Instant) -> bool:
        """Whether tasks are held by workers that are gone, or by leases that ran out."""
        ...

    def get(self, task_id: str) -> Task | None:
        """One task."""
        ...

    def find(
        self, status: Status | None, queue: str | None, group: str | None, limit: int
    ) -> list[Task]:
        """Tasks from one consistent read, newest first."""
        ...

    def held_by(self, worker: str) -> list[Task]:
        """Tasks that workers of this name hold now."""
        ...

    def counts(self, queue: str | None) -> dict[str, int]:
        """How many tasks rest in each status."""
        ...

    def group(self, group_id: str) -> Group | None:
        """A group's roll-up."""
        ...

    def history(self, task_id: str) -> list[Move] | None:
        """A task's moves, oldest first."""
        ...

    def checkpoints(self, task_id: str, type: str | None, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of a task in ascending order, perhaps of one type."""
        ...

    def checkpoints_of_type(self, type: str, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of one type across all tasks, newest first."""
        ...

    def checkpoint_counts(self, task_id: str) -> dict[str, int]:
        """How many checkpoints of each type a task has."""
        ...

    def keys(
        self, task_id: str | None, group: str | None, status: str | None, limit: int
    ) -> list[KeyRecord]:
        """Idempotency keys of a task, of a group, or in a status; newest first."""
        ...

    def paused(self, queue: str) -> bool:
        """Whether a queue is paused."""
        ...

    def ended_among(self, task_ids: Sequence[str]) -> list[str]:
        """Those of these tasks that are final, or are not there at all."""
        ...

    def changes(self) -> int:
        """A number that changes with every commit, by whomever; one cheap question."""
        ...

    def horizon(self, now: Instant) -> Horizon:
        """When the next delayed task falls due, and when the next lease ends after this moment."""
        ...

    def ear(self, for_work: bool) -> Ear:
        """Listen for new work, or for results; whoever looks after this misses no hint."""
        ...

    def ahead_of(self, task: Task) -> int:
        """How many eligible tasks of the queue would be claimed before this one, up to 1000."""
        ...

    def holder_of(self, task: Task) -> str | None:
        """Who holds a running task, in words a person can act on."""
        ...

    def schema(self) -> SchemaReport:
        """The schema as it stands."""
        ...

    def close(self, now: Instant) -> None:
        """Leave the store in order."""
        ...


class Store(StoreReads, Protocol):
    """A queue's storage, opened to serve. Each verb that writes is one durable transaction."""

    healed_at_mono_ms: int | None
    """When a claim last looked for the dead, for all who share this store."""

    def add(
        self, new: Sequence[NewTask], now: Instant, also: Sequence[Statement] = ()
    ) -> list[str]:
        """Insert tasks, or find those their idempotency keys already stand for; returns ids."""
        ...

    def add_soon(
        self, new: Sequence[NewTask], now: Instant, also: Sequence[Statement] = ()
    ) -> Future[list[str]]:
        """The same as a future."""
        ...

    def claim(
        self,
        request: ClaimRequest,
        now: Instant,
        lease_ms: LeaseLength,
        clock: Ticking | None = None,
    ) -> list[Claimed]:
        """Move the best eligible tasks to running and hand them out.

        With a clock, leases begin when the write lock is ours and not when the wait for it began.
        """
        ...

    def take(self, request: ClaimRequest, now: Instant) -> list[Task]:
        """Remove the best eligible tasks and return them: at most once, lost if you crash."""
        ...

    def settle(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> list[bool]:
        """End leases; False where this very lease had ended already, LeaseLost for strangers."""
        ...

    def settle_soon(
        self, settlements: Sequence[Settlement], now: Instant, also: Sequence[Statement] = ()
    ) -> Future[list[bool]]:
        """The same as a future."""
        ...

    def settle_by_id(self, task_id: str, cause: Cause, now: Instant) -> Task:
        """Move a task for somebody who holds no lease: cancel, or fail by an operator."""
        ...

    def renew(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """Push leases out to now plus their length; False for each that is no longer current."""
        ...

    def renew_soon(
        self,
        grants: Sequence[Grant],
        now: Instant,
        lease_ms: int,
        stage: str | None = None,
        clock: Ticking | None = None,
    ) -> Future[list[bool]]:
        """The same as a future."""
        ...

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        ...

    def park(self, task_id: str, reason: Parked, now: Instant) -> bool:
        """Keep a pending task from being claimed."""
        ...

    def unpark(self, task_id: str, now: Instant) -> bool:
        """Make a parked task eligible again."""
        ...

    def pause(self, queue: str, now: Instant) -> bool:
        """Hand out nothing from a queue."""
        ...

    def unpause(self, queue: str, now: Instant) -> bool:
        """Hand out tasks of a queue again."""
        ...

    def add_checkpoint(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Checkpoint:
        """Append a checkpoint under a current lease."""
        ...

    def add_checkpoint_soon(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Future[Checkpoint]:
        """The same as a future."""
        ...

    def trim_checkpoints(self, task_id: str, keep: int, now: Instant) -> int:
        """Drop all but the newest checkpoints, sparing what a resume needs."""
        ...

    def purge_keys(self, now: Instant, limit: int) -> int:
        """Drop expired keys, but none whose task is still alive."""
        ...

    def heal(self, now: Instant, policy: RecoveryPolicy) -> Healed:
        """Put back the tasks of holders that are gone or whose leases ran out."""
        ...

    def refuse_inside(self) -> None:
        """Raise when this very thread is in the middle of an operation, as in a signal handler."""
        ...

    def resolve(self, task_id: str, now: Instant) -> Task | None:
        """One task, after any commit whose outcome was unknown has become certain."""
        ...

    def flush_wal(self, mode: str) -> FlushResult:
        """Move the log's content into the main file."""
        ...


class Backend(Protocol):
    """Opens stores of one kind; all objects of a process on one file share what it opens."""

    def serve(self, path: Path, settings: Settings, now: Instant) -> Store:
        """Open to serve: create or migrate if nobody uses the store, then join its users."""
        ...

    def look(self, path: Path, settings: Settings) -> StoreReads:
        """Open to look: change nothing."""
        ...

    def leave(self, store: StoreReads, now: Instant) -> bool:
        """Stop using a store; the last user closes it. True if it was the last."""
        ...

    def migrate(self, path: Path, settings: Settings, now: Instant) -> list[str]:
        """Bring a store up to date by hand."""
        ...
