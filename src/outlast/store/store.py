"""The one Store: its nouns, each with the verbs that Outlast has for it, on whichever engine."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.integrity import IntegrityResult
from outlast.errors import OutlastError, StoreError
from outlast.logs import logger
from outlast.store.access import Access
from outlast.store.commit.commit_queue import INSIDE, CommitQueue
from outlast.store.commit.operation import Operation
from outlast.store.engine import Engine
from outlast.store.future import Listener
from outlast.store.ops.checkpoints import Checkpoints
from outlast.store.ops.claim.claim import Claims
from outlast.store.ops.events import Events
from outlast.store.ops.keys import Keys
from outlast.store.ops.leases import Leases
from outlast.store.ops.locks.locks import Locks
from outlast.store.ops.metrics import Metrics
from outlast.store.ops.operators import Operators
from outlast.store.ops.queues import Queues
from outlast.store.ops.recovery.recovery import Recovery
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.ops.stats import Figures
from outlast.store.ops.tasks import Tasks
from outlast.store.ops.workers import Workers
from outlast.store.records import FlushResult, Opened, SchemaReport
from outlast.store.topics import FOLLOWING, NOBODY, WAITING_FOR_LOCKS, Topic
from outlast.store.transaction import Transaction

T = TypeVar("T")

_WORK, _RESULTS = frozenset({Topic.WORK}), frozenset({Topic.DONE})

log = logger("outlast.store")


class Store:
    """One opening of one database; shared by all Outlast objects of the process.

    Each verb that writes is one durable transaction. Opened only to look, it changes nothing.
    """

    is_left_at_exit = False
    """Whether it was left because the interpreter ends."""

    def __init__(self, engine: Engine, queue: CommitQueue | None = None) -> None:
        """Without a commit queue it was opened only to look."""
        self.engine = engine
        self.queue = queue
        self._access = access = Access(engine, queue)
        self.tasks = Tasks(access)
        self.claims = Claims(access)
        self.leases = Leases(access)
        self.workers = Workers(access)
        self.checkpoints = Checkpoints(access)
        self.keys = Keys(access)
        self.locks = Locks(access)
        self.events = Events(access)
        self.metrics = Metrics(access)
        self.operators = Operators(access)
        self.queues = Queues(access)
        self.figures = Figures(access)
        self.runs = RecoveryRuns(access)
        self.recovery = Recovery(access, self.runs, self.locks)

    @property
    def closed(self) -> bool:
        """Whether the store had to give up, and must be opened again."""
        return self.engine.closed

    @property
    def path(self) -> Path:
        """The store's file, or what stands for it."""
        return self.engine.traits.path

    @property
    def opened(self) -> Opened:
        """How this process found the store."""
        return self.engine.traits.opened

    def changes(self) -> int:
        """A number that changes with every commit, by whomever; one cheap question."""
        return self.engine.changes()

    def work_listener(self) -> Listener:
        """Listen for new work, and for the ends of workers."""
        return self.engine.listen(_WORK, for_exits=True)

    def result_listener(self) -> Listener:
        """Listen for tasks that end; whoever looks after this misses no hint."""
        return self.engine.listen(_RESULTS)

    def news_listener(self) -> Listener:
        """Listen for anything that comes to stand in the stream."""
        return self.engine.listen(FOLLOWING)

    def lock_listener(self) -> Listener:
        """Listen for locks that become free, and for the ends of workers."""
        return self.engine.listen(WAITING_FOR_LOCKS, for_exits=True)

    def exit_listener(self) -> Listener:
        """Listen for nothing but the ends of workers on this host."""
        return self.engine.listen(NOBODY, for_exits=True)

    def schema(self) -> SchemaReport:
        """The schema as it stands."""
        return self.engine.schema()

    def check(self, is_quick: bool) -> IntegrityResult:
        """Check the database while it is served."""
        return self._alone("checking the file", lambda tx: self.engine.check(is_quick))

    def flush_wal(self, mode: str) -> FlushResult:
        """Move the content of the WAL into the main file."""
        return self._alone("flushing the WAL", lambda tx: self.engine.flush(mode))

    def _alone(self, context: str, job: Callable[[Transaction], T]) -> T:
        """What manages its own transaction, between two batches."""
        return Operation(self._access.queue, context, job, alone=True, is_exclusive=True).result()

    def refuse_inside(self) -> None:
        """The thread that commits cannot close what it works on, and wait for itself."""
        if self.queue is not None and self.queue.is_inside():
            raise StoreError(INSIDE)

    def close(self, now: Instant) -> None:
        """Put back what is still held, leave the workers' list, and let go of the database."""
        has_left = False
        if self.queue is not None:
            self.engine.before_close()
            has_left = not self.closed and self._has_left(now)
            self.engine.closed = True
            self.queue.close()
        self.engine.close(has_left=has_left)

    def _has_left(self, now: Instant) -> bool:
        has_left = False
        try:
            self.metrics.before_leaving()
            self.workers.leave(now, self.runs.session_run_id)
            has_left = True
            self.flush_wal("truncate")
        except OutlastError as error:
            log.warning("closing the store: %s; recovery will see to the rest", error)
        return has_left

    def close_at_exit(self, now: Instant, was_interrupted: bool, timeout_seconds: float) -> None:
        """Leave politely when nothing is held, or on Ctrl-C; otherwise this exit is a crash.

        Work that ends its own process must be charged for it, or it would come back for ever.
        """
        self.is_left_at_exit = True
        is_assisting = self.engine.presence.own.is_assisting
        if is_assisting or was_interrupted or not self.workers.holds_anything():
            self.close(now)
        elif self.queue is not None:
            # Whoever still writes finds no threads any more, which end with the interpreter.
            self.queue.retire(timeout_seconds)

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        is_inside = self.queue is not None and self.queue.is_inside()
        return self.engine.quiesce(0 if is_inside else timeout_seconds)

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self.engine.resume()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without unlocking it."""
        try:
            if self.queue is not None:
                self.queue.abandon()
        finally:
            self.engine.abandon()
