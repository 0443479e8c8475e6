"""What a task looks like to its user: a frozen record whose payload is decoded when asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from outlast.domain import codec
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import FINAL, Parked, Status
from outlast.errors import InvalidInput, PayloadDamaged

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(ms: int | None) -> datetime | None:
    """Stored milliseconds as an aware UTC datetime."""
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


class Stored(NamedTuple):
    """JSON text as it lies in the store, with the checksum written beside it."""

    text: str | None
    checksum: int | None


Waits = Callable[[str, Duration | None], Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One task as it was at the moment of reading."""

    id: str
    kind: str
    queue: str
    status: Status
    priority: int
    group: str | None
    parked: Parked | None
    stage: str | None
    attempt: int
    retry_count: int
    recovery_count: int
    max_retries: int
    max_recoveries: int
    token: int
    worker: str | None
    last_worker: str | None
    error: str | None
    retry_of: str | None
    created_at: datetime
    updated_at: datetime
    state_changed_at: datetime
    not_before: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    lease_acquired_at: datetime | None
    lease_expires_at: datetime | None
    heartbeat_at: datetime | None
    stored_payload: Stored = field(repr=False)
    stored_result: Stored = field(repr=False)
    _waits: Waits | None = field(default=None, repr=False, compare=False)

    @property
    def is_final(self) -> bool:
        """Whether nothing will ever happen to this task again."""
        return self.status in FINAL

    @property
    def payload(self) -> Any:
        """The payload, decoded afresh at each access."""
        text, checksum = self.stored_payload
        if checksum != codec.payload_sum(self.id, self.kind, text):
            raise PayloadDamaged(_damaged("payload", self.id))
        return None if text is None else codec.decode(text)

    @property
    def result(self) -> Any:
        """The result of a completed task, decoded afresh at each access; None before."""
        text, checksum = self.stored_result
        expected = None if text is None else codec.result_sum(self.id, text)
        if checksum != expected:
            raise PayloadDamaged(_damaged("result", self.id))
        return None if text is None else codec.decode(text)

    def wait(self, timeout: Duration | None = None) -> Any:
        """The result, once there is one; awaitable if an AsyncOutlast made this record.

        Raises TaskFailed, TaskCancelled, or TimeoutError when it takes longer than `timeout`.
        """
        if self._waits is None:
            raise InvalidInput("this record of a task knows no store; ask get(id).wait() of one")
        return self._waits(self.id, timeout)

    def waiting_by(self, waits: Waits) -> "Task":
        """The same record, which now knows how to wait for its result."""
        object.__setattr__(self, "_waits", waits)
        return self


def _damaged(part: str, task_id: str) -> str:
    return f"the {part} of task {task_id} was damaged on disk; restore it from a backup"


@dataclass(frozen=True, slots=True)
class Move:
    """One row of a task's history."""

    at: datetime
    from_status: Status
    to_status: Status
    actor: str
    reason: str
    attempt: int
    token: int
    worker: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group's roll-up over its tasks."""

    id: str
    status: Status
    counts: dict[str, int]

    @property
    def done(self) -> bool:
        """Whether every task of the group is final."""
        return self.status in FINAL


def roll_up(counts: dict[str, int]) -> Status:
    """A group's status from its tasks': unfinished first, then the worst of the finished."""
    if counts["running"] or (counts["pending"] and counts["completed"] + counts["failed"]):
        return Status.RUNNING
    for status in (Status.PENDING, Status.FAILED, Status.CANCELLED):
        if counts[status]:
            return status
    return Status.COMPLETED


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One append-only record of a task's progress."""

    id: str
    task_id: str
    group: str | None
    type: str
    sequence_number: int
    attempt: int
    data: Any
    metadata: Any
    created_at: datetime


CHECKPOINT_TYPES = (
    "iteration_start",
    "iteration_end",
    "tool_executed",
    "llm_response",
    "approval_point",
    "state_transition",
    "manual_checkpoint",
    "error_boundary",
)
