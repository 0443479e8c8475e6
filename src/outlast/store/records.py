"""The records that travel between the engine and a store."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from outlast.clock import Instant
from outlast.domain.budgets import USUAL_RECOVERIES
from outlast.domain.integrity import IntegrityResult, Verdict
from outlast.domain.lifecycle import Cause, RecoveryAction
from outlast.domain.orphans import Patience
from outlast.domain.record import record
from outlast.domain.recovery import DeadWorker, RecoveryStep, Suspect, UnrecoveredTask
from outlast.domain.worker import PreviousStop, StuckHandler, WorkerState

Statement = tuple[str, Sequence[Any] | dict[str, Any]]
Ticking = Callable[[], Instant]


class LeaseLength(Protocol):
    """How long the lease of a claimed kind lasts."""

    def __call__(self, kind: str) -> int:
        """The length in milliseconds."""
        ...


class Trace(NamedTuple):
    """The context of a span, in the words of W3C Trace Context."""

    traceparent: str
    tracestate: str | None = None


class TaskTrace(NamedTuple):
    """The context a task was enqueued in, and the one of the last attempt that was traced."""

    traceparent: str | None
    tracestate: str | None
    attempt_traceparent: str | None

    @property
    def origin(self) -> Trace | None:
        """Where it was enqueued."""
        return None if self.traceparent is None else Trace(self.traceparent, self.tracestate)

    @property
    def last_attempt(self) -> Trace | None:
        """The attempt before this one."""
        before = self.attempt_traceparent
        return None if before is None else Trace(before)


MAX_KINDS = 200

SESSIONS_FROM = "sessions_from"
"""The first run whose session is ended by a clean stop or by the recovery from its crash."""


@record(frozen=True, slots=True)
class ClaimRequest:
    """What a claimer wants: from which queues, in order, and narrowed to what."""

    worker: str
    limit: int
    queues: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    group: str | None = None
    started: bool = True
    excluding: frozenset[int] = frozenset()
    lock: str | None = None
    """A lock that has to be free, and goes with the first lease that is handed out."""


class Grant(NamedTuple):
    """Proof of ownership that every write of a holder carries."""

    seq: int
    holder: int
    token: int


class Claimed(NamedTuple):
    """A task handed to a holder."""

    grant: Grant
    task_id: str
    kind: str
    queue: str
    group: str | None
    payload: str | None
    attempt: int
    lease_ms: int


class Settlement(NamedTuple):
    """The end of one lease: its proof, what happened, and the result if there is one.

    The last two are known of an attempt that had a process of its own.
    """

    grant: Grant
    task_id: str
    cause: Cause
    result: str | None = None
    exit_signal: int | None = None
    peak_memory_bytes: int | None = None


class Exchanged(NamedTuple):
    """An exchange: how each ending was answered (None: the lease is lost), what was handed out."""

    answers: list[bool | None]
    claimed: list[Claimed]


class Principal(NamedTuple):
    """A registered worker as its assistant knows it: name, row, incarnation, lock descriptor."""

    worker: str
    row: int
    incarnation: str
    lock_descriptor: int


class Holder(NamedTuple):
    """Who holds a running task, and what keeps it from going on, if anything does."""

    name: str
    host: str
    pid: int
    state: WorkerState
    silent_ms: int
    is_this_process: bool
    lease_ran_out: bool
    waits_for_its_turn: bool
    stuck: tuple[StuckHandler, ...]


class Ahead(NamedTuple):
    """How many eligible tasks of a queue would be claimed before one of it, each up to a limit."""

    of_higher_priority: int
    that_came_earlier: int


class NewCheckpoint(NamedTuple):
    """A checkpoint as it enters the store."""

    id: str
    type: str
    data: str
    metadata: str | None


class RecoveryPolicy(NamedTuple):
    """How orphans are treated, and when silence is taken for death."""

    action: RecoveryAction
    batch: int
    patience: Patience
    by_kind: Mapping[str, RecoveryAction]
    max_recoveries: int = USUAL_RECOVERIES
    """How many crashes in a row are taken back of a task that says nothing of it."""
    is_held: bool = False
    """Whether what goes back waits for somebody's approval."""
    is_sole: bool = False
    """Whether nobody else can be at work, as this process has the store to itself."""

    def action_for(self, kind: str) -> RecoveryAction:
        """What happens to an orphan of this kind."""
        return self.by_kind.get(kind, self.action)

    @property
    def spared_kinds(self) -> list[str] | None:
        """The kinds that are left alone; None when no others are touched."""
        if self.action is RecoveryAction.NONE:
            return None
        return [kind for kind, action in self.by_kind.items() if action is RecoveryAction.NONE]

    @property
    def only_kinds(self) -> list[str] | None:
        """The kinds that alone are touched; None when all but the spared ones are."""
        if self.action is not RecoveryAction.NONE:
            return None
        return [kind for kind, action in self.by_kind.items() if action is not RecoveryAction.NONE]


class Death(NamedTuple):
    """A worker that was found dead: by which sign, since when it was silent, what it left."""

    worker: str
    incarnation: str
    pid: int
    host: str
    because: str
    beat_at_ms: int
    put_back: int
    failed: int
    task_ids: tuple[str, ...] = ()
    """The first hundred of the tasks."""


class Unfit(NamedTuple):
    """A task that could not be taken back, and what stood in the way."""

    task_id: str
    error: str


class Spared(NamedTuple):
    """Orphans that recovery leaves alone because of their kind: how many, and the first of them."""

    number: int = 0
    task_ids: tuple[str, ...] = ()


class Healed(NamedTuple):
    """What one pass of healing did, or would do."""

    put_back: int = 0
    failed: int = 0
    dead_workers: tuple[str, ...] = ()
    held: int = 0
    skipped: int = 0
    deaths: tuple[Death, ...] = ()
    unfit: tuple[Unfit, ...] = ()
    stale_workers: tuple[str, ...] = ()
    locks_freed: int = 0
    skipped_ids: tuple[str, ...] = ()
    """The first hundred of those that were skipped."""


class Batch(NamedTuple):
    """How far a pass of healing is, told after each of its transactions."""

    put_back: int
    failed: int
    worker: str | None


class Opened(NamedTuple):
    """How a store was found when this process began to serve it, and what was done first."""

    previous: PreviousStop
    crashed_at_ms: int | None
    crashed_pids: tuple[int, ...]
    odd_markers: tuple[str, ...]
    markers: tuple[str, ...]
    """What is to be taken away once it was recovered from, the unreadable ones too."""
    is_sole: bool
    wal_bytes: int | None
    wal_frames_moved: int | None
    integrity: IntegrityResult
    seconds: float
    flush_was_busy: bool = False
    crashed: tuple[str, ...] = ()
    """The incarnations that ended badly."""


ALREADY_OPEN = Opened(
    PreviousStop.IN_USE, None, (), (), (), False, None, None,
    IntegrityResult(Verdict.SKIPPED, reason="the store is in use"), 0.0,
)  # fmt: skip
"""How it is found by one who comes later: an assistant of its user, or a second run."""


class RunStart(NamedTuple):
    """A recovery run as it begins."""

    trigger: str
    previous: PreviousStop
    crashed_at_ms: int | None = None
    wal_bytes: int | None = None
    wal_frames_moved: int | None = None
    settings: str | None = None
    """The recovery settings of who runs it, for others to go by."""
    crashed: tuple[str, ...] = ()
    """The incarnations that ended badly: what they stored last is a later sign than their start."""


@record(frozen=True, slots=True)
class RunEnd:
    """A recovery run as it ends."""

    mode: str
    healed: Healed
    integrity: IntegrityResult
    integrity_after: IntegrityResult
    steps: tuple[RecoveryStep, ...]
    dead_workers: tuple[DeadWorker, ...] = ()
    unrecovered: tuple[UnrecoveredTask, ...] = ()
    errors: tuple[str, ...] = ()
    is_after_a_crash: bool = False
    tasks_pending_after: int = 0
    suspects: tuple[Suspect, ...] = ()
    suspect_count: int = 0
    was_stopped: bool = False
    """Something was raised before its end."""

    @property
    def has_findings(self) -> bool:
        """Whether there is anything to tell of this run."""
        moved = self.healed.put_back or self.healed.failed or self.healed.skipped
        told = self.errors or self.unrecovered or self.dead_workers
        return bool(moved or told or self.is_after_a_crash)


class KeyRecord(NamedTuple):
    """An idempotency key as it stands."""

    key: str
    task_id: str | None
    group: str | None
    request_hash: str
    response: Any
    status: str
    created_at: datetime | None
    completed_at: datetime | None
    expires_at: datetime | None


class FlushResult(NamedTuple):
    """What a flush reported: were readers in the way, frames in the WAL, frames moved."""

    busy: bool
    frames_in_log: int
    frames_moved: int


class SchemaReport(NamedTuple):
    """The schema as it stands in the store."""

    version: int
    migrations: tuple[str, ...]
    definitions: dict[str, str]


class Horizon(NamedTuple):
    """When something will happen by itself, as far as the store knows now."""

    next_due_utc_ms: int | None
    next_lease_end_mono_ms: int | None
