"""The Store protocol: the verbs every backend answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from outlast.clock import Instant
from outlast.domain.events import Cursor, Place
from outlast.domain.integrity import IntegrityResult
from outlast.domain.lifecycle import Cause, Parked
from outlast.domain.task import Checkpoint, Task
from outlast.settings import Settings
from outlast.store.future import Future
from outlast.store.healing import StoreHeals
from outlast.store.locking import StoreLocks
from outlast.store.measuring import StoreMeasures
from outlast.store.new_tasks import NewTask
from outlast.store.operating import StoreActs
from outlast.store.reading import StoreReads, TaskListing
from outlast.store.records import (
    Claimed,
    ClaimRequest,
    Exchanged,
    FlushResult,
    Grant,
    NewCheckpoint,
    Principal,
    Settlement,
    Statement,
    Trace,
)

__all__ = ["Backend", "LeaseLength", "Store", "StoreReads", "TaskListing", "Ticking", "Turn"]

Ticking = Callable[[], Instant]


class LeaseLength(Protocol):
    """How long the lease of a claimed kind lasts."""

    def __call__(self, kind: str) -> int:
        """The length in milliseconds."""
        ...


class Turn(Protocol):
    """The right to deliver the stream to a named subscriber; it ends with its process."""

    def close(self) -> None:
        """Let the next one deliver."""
        ...


class Store(StoreReads, StoreLocks, StoreMeasures, StoreActs, StoreHeals, Protocol):
    """A queue's storage, opened to serve. Each verb that writes is one durable transaction."""

    def add(
        self,
        new: Sequence[NewTask],
        now: Instant,
        also: Sequence[Statement] = (),
        trace: Trace | None = None,
    ) -> list[str]:
        """Insert tasks, or find those their idempotency keys already stand for; returns ids.

        With a trace, what is new is stored as enqueued in that context.
        """
        ...

    def add_soon(
        self,
        new: Sequence[NewTask],
        now: Instant,
        also: Sequence[Statement] = (),
        trace: Trace | None = None,
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

    def exchange(
        self,
        settlements: Sequence[Settlement],
        request: ClaimRequest,
        now: Instant,
        lease_ms: LeaseLength,
        clock: Ticking | None = None,
    ) -> Exchanged:
        """End leases and hand out new ones in one transaction; a limit of 0 hands out nothing."""
        ...

    def principal(self, worker: str, now: Instant) -> Principal:
        """This process as a worker of that name, registered, for an assistant to act for."""
        ...

    def enlist(self, worker: str) -> bool:
        """A worker of this name begins its work; False if one in this process is at it."""
        ...

    def retire(self, worker: str, now: Instant) -> None:
        """A worker of this process has ended its work; what it still holds is put back."""
        ...

    def note_end(self, grants: Sequence[Grant]) -> None:
        """The ends of these leases are committed, by an assistant: their notes may go."""
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

    def beat(
        self,
        worker: str,
        grants: Sequence[tuple[Grant, int]],
        now: Instant,
        *,
        serves: str | None = None,
        stuck: str | None = None,
        progress: str | None = None,
        peak_memory_bytes: int | None = None,
        clock: Ticking | None = None,
    ) -> list[bool]:
        """A worker's sign of life and the renewal of its leases, in one transaction.

        Each lease comes with its length in milliseconds; False for each that is not current. What
        the worker serves stays as it was unless it is given; who is stuck, and how far the work
        is, are as given now.
        """
        ...

    def heartbeat(
        self, worker: str, task_ids: Sequence[str], progress: str | None, now: Instant
    ) -> None:
        """A worker's sign of life by hand: the first of its tasks that is there, its progress."""
        ...

    def note_start(self, grant: Grant) -> None:
        """Record that a prefetched task's work begins now; unsynced, but it survives kill -9."""
        ...

    def note_memory(self, peak_bytes: int) -> None:
        """Record how much memory this process has used at most; unsynced, like a start."""
        ...

    def park(self, task_id: str, reason: Parked, now: Instant) -> bool:
        """Keep a pending task from being claimed."""
        ...

    def unpark(self, task_id: str, now: Instant) -> bool:
        """Make a parked task eligible again."""
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

    def purge_keys(self, now: Instant, limit: int, looks_first: bool = False) -> int:
        """Drop expired keys, but none whose task is still alive."""
        ...

    def begin_cursor(self, name: str, start: Cursor | None, now: Instant) -> Place:
        """The stored place of a subscriber; a new one begins at `start`, or behind all there is."""
        ...

    def move_cursor(self, name: str, to: Place, now: Instant) -> bool:
        """Store that all up to a place is delivered; False when it is further, gone, or new."""
        ...

    def delete_cursor(self, name: str) -> bool:
        """Forget a subscriber and its place; False when there is none."""
        ...

    def turn(self, name: str) -> Turn | None:
        """The right to deliver under a name, or None while another has it."""
        ...

    @property
    def path(self) -> Path:
        """The store's file, or what stands for it."""
        ...

    def check(self, is_quick: bool) -> IntegrityResult:
        """Check the file while it is served."""
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

    def serve(
        self, path: Path, settings: Settings, now: Instant, assists: Principal | None = None
    ) -> Store:
        """Open to serve: create or migrate if nobody uses the store, then join its users.

        An assistant is no holder of its own: it acts for the one it assists.
        """
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
