"""The records of recovery: what a run found and did, which decisions it took, and why."""

from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from outlast.domain.integrity import IntegrityResult
from outlast.domain.lifecycle import RecoveryAction
from outlast.domain.orphans import Orphaned
from outlast.domain.record import record
from outlast.domain.worker import PreviousStop


@record(frozen=True, slots=True)
class RecoveryStep:
    """One step of a run, in the fixed order."""

    name: str
    outcome: str
    seconds: float = 0.0


@record(frozen=True, slots=True)
class DeadWorker:
    """A worker that a run found dead, and what it left; the ids are the first hundred of it."""

    worker: str
    incarnation: str
    pid: int
    host: str
    because: str
    last_beat_at: datetime
    tasks_put_back: int
    tasks_failed: int
    task_ids: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class UnrecoveredTask:
    """A task that could not be taken back, and what stood in the way."""

    task_id: str
    error: str


@record(frozen=True, slots=True)
class RecoveredTask:
    """A task that a run moved."""

    task_id: str
    kind: str
    previous_worker: str | None
    status: str
    reason: str
    attempt: int
    max_retries: int
    max_recoveries: int | None
    error: str | None
    at: datetime
    pos: int
    """Its place in the stream; a page after this one begins behind it."""


@record(frozen=True, slots=True)
class Decision:
    """What recovery would do with a running task, and why; `orphaned` is None if it stays."""

    task_id: str
    kind: str
    worker: str | None
    orphaned: Orphaned | None
    because: str
    action: RecoveryAction
    to: str
    reason: str


@record(frozen=True, slots=True)
class RecoveryReport:
    """A run: how the store was found, what was done in which order, and what came of it."""

    run_id: int
    trigger: str
    mode: str
    pid: int
    host: str
    started_at: datetime
    completed_at: datetime
    previous: PreviousStop
    crashed_at: datetime | None
    tasks_running_before: int
    tasks_put_back: int
    tasks_failed: int
    tasks_held: int
    tasks_skipped: int
    wal_bytes: int | None
    wal_frames_moved: int | None
    integrity: IntegrityResult
    integrity_after: IntegrityResult
    steps: tuple[RecoveryStep, ...] = ()
    dead_workers: tuple[DeadWorker, ...] = ()
    stale_workers: tuple[str, ...] = ()
    unrecovered: tuple[UnrecoveredTask, ...] = ()
    errors: tuple[str, ...] = field(default=())
    locks_freed: int = 0
    tasks_pending_after: int = 0
    suspects: tuple["Suspect", ...] = ()
    """The worst of those that were orphaned again and again; `suspect_count` counts all."""
    suspect_count: int = 0
    skipped_task_ids: tuple[str, ...] = ()
    """The first hundred of those that policy leaves alone."""

    @property
    def orphaned_tasks_found(self) -> int:
        """Those that were moved, those that could not be, and those that policy leaves alone."""
        moved = self.tasks_put_back + self.tasks_failed
        return moved + len(self.unrecovered) + self.tasks_skipped

    @property
    def successful_recoveries(self) -> int:
        """Those that are workable again."""
        return self.tasks_put_back

    @property
    def failed_recoveries(self) -> int:
        """Those that will not run again by themselves."""
        return self.tasks_failed + len(self.unrecovered)

    @property
    def duration_seconds(self) -> float:
        """From start to completion; 0 if the clock was set back meanwhile."""
        return max(0.0, (self.completed_at - self.started_at).total_seconds())

    def was_successful(self) -> bool:
        """Whether no step met an error."""
        return not (self.errors or self.unrecovered)


@record(frozen=True, slots=True)
class Suspect:
    """A task that was orphaned again and again, and what that probably comes from."""

    task_id: str
    kind: str
    status: str
    recoveries: int
    likely_cause: str


class LeftByRecovery(NamedTuple):
    """What a run that moved something is asked for at its end."""

    pending: int
    suspects: tuple[Suspect, ...]
    suspect_count: int


@record(frozen=True, slots=True)
class RecoveryStatus:
    """Where recovery stands at the moment of reading."""

    mode: str
    action: str
    is_due: bool
    held_tasks: int
    dead_workers: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    last: RecoveryReport | None
    is_running: bool = False
    """A run has begun and is not over, of a process that lives."""
    suspect_count: int = 0
    """All that were orphaned again and again; `suspects` are the worst of them."""
    left_alone: int = 0
    """Orphans that recovery leaves to a person because of their kind."""
    left_alone_ids: tuple[str, ...] = ()
    """The first of them."""

    @property
    def is_degraded(self) -> bool:
        """Whether it is switched off, or its last run met errors."""
        return self.mode == "off" or not (self.last is None or self.last.was_successful())


def likely_cause(
    kind: str,
    crashes: int,
    expiries: int,
    beats: bool,
    died_of: str | None,
    *,
    beside: str | None = None,
    others: int = 0,
) -> str:
    """What a task that is orphaned again and again probably suffers from.

    `beside` is a task that was lost in the same process, and more often; `others` is how many
    tasks were lost together with it at all.
    """
    if crashes >= expiries and beside is not None:
        return f"it ran beside task {beside}, which was lost more often and may be the one to blame"
    if crashes >= expiries and others:
        beside_whom = "another task" if others == 1 else f"{others} other tasks"
        return (
            f"its process died while it ran beside {beside_whom}; run it alone, or with"
            ' isolation="process", to see which of them is to blame'
        )
    if crashes >= expiries:
        said = f": {died_of}" if died_of else ""
        return f"it ends the process that runs it ({crashes} times){said}"
    if not beats:
        return (
            f"its lease ran out {expiries} times while its worker gave no sign of life: the lease"
            f" of kind {kind} is too short for work that does not renew it"
        )
    return (
        f"its lease ran out {expiries} times although its worker beat: the machine slept or its"
        " clock was set, or the lease is shorter than two beats"
    )
