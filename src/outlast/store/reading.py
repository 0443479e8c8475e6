"""What can be asked of a store that was opened only to look: the reading half of the protocol."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from outlast.clock import Instant
from outlast.domain.events import Cursor, Page, Place, Subscriber
from outlast.domain.lifecycle import Status
from outlast.domain.orphans import Patience
from outlast.domain.recovery import (
    Decision,
    LeftByRecovery,
    RecoveredTask,
    RecoveryReport,
    Suspect,
)
from outlast.domain.stats import Backlog, LeaseFigures, Stats
from outlast.domain.task import Checkpoint, Group, Move, Task
from outlast.domain.worker import WorkerInfo
from outlast.store.future import Ear
from outlast.store.locking import LockReads
from outlast.store.measuring import MeasureReads
from outlast.store.operating import AuditReads
from outlast.store.records import (
    Ahead,
    Grant,
    Holder,
    Horizon,
    KeyRecord,
    RecoveryPolicy,
    SchemaReport,
    Spared,
)


class TaskListing(Protocol):
    """A list of tasks of one moment, read on piece by piece."""

    def more(self) -> list[Task]:
        """The next ones; none when all were listed."""
        ...

    def close(self) -> None:
        """Let go of the moment."""
        ...


class StoreReads(LockReads, MeasureReads, AuditReads, Protocol):
    """What can be asked of a store that was opened only to look."""

    @property
    def closed(self) -> bool:
        """Whether the store had to give up, and must be opened again."""
        ...

    def peers_have_come(self) -> bool:
        """Whether somebody counts as alive whom the last look for the dead did not judge."""
        ...

    def healing_is_due(
        self, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether heal would find anything; reads only."""
        ...

    def orphans_are_there(
        self, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether the dead hold tasks, or leases ran out; a policy leaves some kinds alone."""
        ...

    def plan(self, now: Instant, policy: RecoveryPolicy) -> Iterator[Decision]:
        """What recovery would do with each running task, and why; changes nothing."""
        ...

    def dead_workers(self, now: Instant, patience: Patience) -> tuple[str, ...]:
        """The workers that count as alive and are dead."""
        ...

    def left_by_recovery(self, limit: int) -> LeftByRecovery:
        """How many tasks are pending, and so many of those that were orphaned again and again."""
        ...

    def held_count(self) -> int:
        """How many tasks that recovery put back wait for approval."""
        ...

    def is_held_by_recovery(self, task_id: str) -> bool:
        """Whether recovery put a task back and it waits for approval."""
        ...

    def is_recovering(self) -> bool:
        """Whether a process is in the middle of a recovery run."""
        ...

    def suspects(self, limit: int) -> tuple[Suspect, ...]:
        """Tasks that were orphaned again and again, the worst first."""
        ...

    def suspect_count(self) -> int:
        """How many tasks were orphaned again and again."""
        ...

    def spared(self, now: Instant, policy: RecoveryPolicy, limit: int) -> Spared:
        """The orphans that a policy leaves alone because of their kind."""
        ...

    def recovery_settings(self) -> str | None:
        """The recovery settings that whoever served last has left, as JSON."""
        ...

    def recovered(self, run_id: int, after: int, limit: int) -> list[RecoveredTask]:
        """The tasks a run moved, a page at a time."""
        ...

    def recovered_count(self, run_id: int, after: int) -> int:
        """How many tasks a run moved behind a position of the stream."""
        ...

    def telling_run(self, run_id: int | None) -> tuple[RecoveryReport, int] | None:
        """A run, or the newest with something to tell, and how many found nothing since."""
        ...

    def last_run(self, trigger: str | None = None) -> RecoveryReport | None:
        """The newest run that was completed, perhaps of one trigger."""
        ...

    def get(self, task_id: str) -> Task | None:
        """One task."""
        ...

    def find(
        self, status: Status | None, queue: str | None, group: str | None, limit: int
    ) -> list[Task]:
        """Tasks from one consistent read, newest first."""
        ...

    def snapshot(self, status: Status | None, queue: str | None, group: str | None) -> TaskListing:
        """Every task of this moment, newest first, to be read on piece by piece."""
        ...

    def held_by(self, worker: str) -> list[Task]:
        """Tasks that workers of this name hold now."""
        ...

    def counts(self, queue: str | None) -> dict[str, int]:
        """How many tasks rest in each status."""
        ...

    def backlog(self, queue: str | None, limit: int) -> Backlog:
        """What is pending or running, and up to so many groups that it belongs to."""
        ...

    def stats(self, now: Instant, stale_ms: int) -> Stats:
        """The store in numbers, from one consistent read; silence counts from `stale_ms` on."""
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

    def paused_queues(self) -> list[str]:
        """The queues that hand out nothing, by name."""
        ...

    def leases(self, now: Instant, policy: RecoveryPolicy | None = None) -> LeaseFigures:
        """How many leases are out, how many of them were not renewed lately or have run out.

        Of kinds that a policy leaves alone, none counts as run out.
        """
        ...

    def ids_beginning(self, start: str, limit: int) -> list[str]:
        """The ids of tasks that begin so, in their order."""
        ...

    def ended_among(self, task_ids: Sequence[str]) -> list[str]:
        """Those of these tasks that are final, or are not there at all."""
        ...

    def current_among(self, grants: Sequence[Grant]) -> list[bool]:
        """Which of these leases are current: True for each whose task is held as it says."""
        ...

    def changes(self) -> int:
        """A number that changes with every commit, by whomever; one cheap question."""
        ...

    def horizon(self, now: Instant) -> Horizon:
        """When the next delayed task falls due, and when the next lease ends after this moment."""
        ...

    def held_by_row(self, row: int) -> dict[Grant, str]:
        """The leases that a worker took ahead of their work, and the ids of their tasks."""
        ...

    def retries_are_due(
        self, queues: Sequence[str], kinds: Sequence[str], excluding: Sequence[int]
    ) -> bool:
        """Whether tasks that were tried before wait for their next try; some rows apart."""
        ...

    def listen_for_deaths(self) -> Ear:
        """Listen for nothing but the ends of workers on this host."""
        ...

    def ear(self, for_work: bool) -> Ear:
        """Listen for new work, or for results; whoever looks after this misses no hint."""
        ...

    def ear_for_news(self) -> Ear:
        """Listen for anything that comes to stand in the stream."""
        ...

    def stream(self, after: Cursor, limit: int, now: Instant) -> Page:
        """What comes behind a place, up to so many events; gone parts are told first."""
        ...

    def stream_end(self) -> Cursor:
        """The place behind all there is."""
        ...

    def cursor(self, name: str) -> Place | None:
        """The stored place of a named subscriber."""
        ...

    def subscribers(self, now: Instant, idle_seconds: float) -> list[Subscriber]:
        """The names that have a stored place, and how far each is."""
        ...

    def ahead_of(self, task: Task) -> Ahead:
        """How many eligible tasks of its queue would be claimed before it; up to 1000 each."""
        ...

    def workers(self, now: Instant, patience: Patience, limit: int) -> list[WorkerInfo]:
        """Workers of all times, newest first, each judged now."""
        ...

    def living_workers(
        self, now: Instant, patience: Patience, name: str | None
    ) -> list[WorkerInfo]:
        """The workers that are alive or stale, perhaps of one name."""
        ...

    def holder_of(self, task: Task, now: Instant, patience: Patience) -> Holder | None:
        """Who holds a running task, judged now."""
        ...

    def schema(self) -> SchemaReport:
        """The schema as it stands."""
        ...

    def close(self, now: Instant) -> None:
        """Leave the store in order."""
        ...
