"""What a task looks like to its user: a frozen record whose payload is decoded when asked for."""

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NoReturn, Protocol

from outlast.domain import codec
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import FINAL, Parked, Status
from outlast.domain.record import record
from outlast.errors import InvalidInput, PayloadDamaged

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Seconds as a float are exact to the microsecond until the year 2109, and quicker than a sum.
_EXACT_BELOW_MS = 1 << 42
# The end of the year 9999, after which there is no datetime.
_LAST_MS = 253_402_300_799_999
_from_seconds = datetime.fromtimestamp
_new, _set = object.__new__, object.__setattr__


def utc(ms: int | None) -> datetime | None:
    """Stored milliseconds as an aware UTC datetime."""
    if ms is None:
        return None
    if 0 <= ms < _EXACT_BELOW_MS:
        return _from_seconds(ms / 1000, UTC)
    return _EPOCH + timedelta(milliseconds=ms)


def utc_of(ms: int) -> datetime:
    """The same, of a time that is always there."""
    return _EPOCH + timedelta(milliseconds=ms)


def stamp_of(ms: int) -> str:
    """The same as text, in ISO 8601; what foreign hands wrote may lie outside of the calendar."""
    moment = utc_of(min(max(ms, 0), _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Stored(NamedTuple):
    """JSON text as it lies in the store, with the checksum written beside it."""

    text: str | None
    checksum: int | None


NOTHING_STORED = Stored(None, None)

Waits = Callable[[str, Duration | None], Any]


@record(frozen=True)
class Task:
    """One task as it was at the moment of reading.

    The defaults are those of a task just stored. Its record knows its id, and finds out the rest
    when it is asked: most callers never do, and each of them has waited for the disk.
    """

    id: str
    kind: str
    queue: str
    status: Status = Status.PENDING
    priority: int = 0
    group: str | None = None
    parked: Parked | None = None
    stage: str | None = None
    attempt: int = 0
    retry_count: int = 0
    recovery_count: int = 0
    crashes_in_row: int = 0
    max_retries: int = 0
    max_recoveries: int | None = None
    token: int = 0
    worker: str | None = None
    last_worker: str | None = None
    error: str | None = None
    retry_of: str | None = None
    created_at: datetime = _EPOCH
    updated_at: datetime = _EPOCH
    state_changed_at: datetime = _EPOCH
    not_before: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    lease_acquired_at: datetime | None = None
    lease_expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    stored_payload: Stored = field(default=NOTHING_STORED, repr=False)
    stored_result: Stored = field(default=NOTHING_STORED, repr=False)

    @classmethod
    def just_stored(cls, task_id: str, told_by: "Teller", waits: Waits | None = None) -> "Task":
        """A record of which `told_by` says, when it is asked, what differs from the defaults."""
        task = _new(cls)
        _set(task, "__dict__", {"id": task_id, "_told_by": told_by, "_waits": waits})
        return task

    def __copy__(self) -> "Task":
        """What never changes need not be copied."""
        return self

    def __deepcopy__(self, memo: object) -> "Task":
        """The same."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """To another process goes what is known of the task, and not the store it came from."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

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
        if checksum is None and text is None:
            return None
        if checksum != codec.result_sum(self.id, text):
            raise PayloadDamaged(_damaged("result", self.id))
        return None if text is None else codec.decode(text)

    def wait(self, timeout: Duration | None = None) -> Any:
        """The result, once there is one; awaitable if an AsyncOutlast made this record.

        Raises TaskFailed, TaskCancelled, or TimeoutError when it takes longer than `timeout`.
        """
        waits: Waits | None = self.__dict__.get("_waits")
        if waits is None:
            raise InvalidInput("this record of a task knows no store; ask get(id).wait() of one")
        return waits(self.id, timeout)

    def __await__(self) -> NoReturn:
        """Awaiting it is an easy mistake, and one that comes when the task is stored already."""
        raise TypeError(
            f"task {self.id} is stored and cannot be awaited: its result is task.wait(), or"
            " await task.wait() if it comes from an AsyncOutlast"
        )

    def waiting_by(self, waits: Waits) -> "Task":
        """The same record, which now knows how to wait for its result; no field, for that is known
        in this process only."""
        self.__dict__["_waits"] = waits
        return self


# What a record of a task just stored finds out when it is asked.
TOLD_WHEN_ASKED = (
    "kind", "queue", "priority", "group", "parked", "max_retries", "max_recoveries", "retry_of",
    "created_at", "updated_at", "state_changed_at", "not_before", "stored_payload",
)  # fmt: skip


class Teller(Protocol):
    """Knows what a task was stored with."""

    def told(self) -> Mapping[str, Any]:
        """A value for each of TOLD_WHEN_ASKED; the same at each call."""
        ...


class _ToldWhenAsked:
    """A field of a task just stored; a record that was read has its own, and never comes here."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._defaults = {name: Task.__dict__[name]} if name in Task.__dict__ else {}

    def __get__(self, task: Task | None, owner: type[Task]) -> Any:
        values = self._defaults if task is None else task.__dict__
        if "_told_by" in values:
            values.update(values["_told_by"].told())
        try:
            return values[self._name]
        except KeyError:
            raise AttributeError(f"a task has no {self._name} of its own") from None


def _tell_when_asked() -> None:
    for name in TOLD_WHEN_ASKED:
        setattr(Task, name, _ToldWhenAsked(name))


_tell_when_asked()


def _damaged(part: str, task_id: str) -> str:
    return f"the {part} of task {task_id} was damaged on disk; restore it from a backup"


@record(frozen=True, slots=True)
class Move:
    """One row of a task's history; the last two of an attempt in a process of its own."""

    at: datetime
    from_status: Status
    to_status: Status
    actor: str
    reason: str
    attempt: int
    token: int
    worker: str | None
    error: str | None
    exit_signal: int | None = None
    peak_memory_bytes: int | None = None


@record(frozen=True, slots=True)
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


@record(frozen=True, slots=True)
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
