"""The event stream as its readers see it: what happened and its name, places in it, one order.

Moves and what is no task's move have positions of one counter. Creations have none: they are
numbered by themselves, and are woven in so that each comes before anything else of its task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, NamedTuple

from outlast.domain.escaping import shown
from outlast.domain.lifecycle import RECOVERY, Status
from outlast.domain.record import record
from outlast.domain.task import utc_of
from outlast.errors import InvalidInput

ENQUEUED = "task.enqueued"
TAKEN = "task.taken"
PARKED = "task.parked"
UNPARKED = "task.unparked"
QUEUE_PAUSED = "queue.paused"
QUEUE_RESUMED = "queue.resumed"
MISSED = "stream.missed"
RECOVERED = "task.recovered"
EXPIRED = "task.expired"
WORKER_DEAD = "worker.dead"
LOCK_EXPIRED = "lock.expired"
LOCK_FREED = "lock.freed"
LOCK_RELEASED = "lock.released"
RECOVERY_STARTED = "recovery.started"
RECOVERY_PROGRESS = "recovery.progress"
RECOVERY_COMPLETED = "recovery.completed"

_BY_END = {
    Status.RUNNING: "task.claimed",
    Status.COMPLETED: "task.completed",
    Status.FAILED: "task.failed",
    Status.CANCELLED: "task.cancelled",
}
_BACK_BY_REASON = {
    "retry": "task.retried",
    "released": "task.released",
    "waiting": "task.waiting",
    "never_started": RECOVERED,
    "crash_retry": RECOVERED,
    "crash_reset": RECOVERED,
    "lease_expired_retry": EXPIRED,
    "lease_expired_reset": EXPIRED,
    "taken_retry": RECOVERED,
    "taken_reset": RECOVERED,
}

KINDS = frozenset(
    {
        ENQUEUED, TAKEN, PARKED, UNPARKED, QUEUE_PAUSED, QUEUE_RESUMED, MISSED, WORKER_DEAD,
        LOCK_EXPIRED, LOCK_FREED, LOCK_RELEASED, RECOVERY_STARTED, RECOVERY_PROGRESS,
        RECOVERY_COMPLETED, *_BY_END.values(), *_BACK_BY_REASON.values(),
    }
)  # fmt: skip
"""Every kind of event there is."""
FAMILIES = frozenset(kind.partition(".")[0] + ".*" for kind in KINDS)


def checked_kind(name: str) -> str:
    """A kind of event, or a family of them such as `task.*`; one there is not would never come."""
    if name in KINDS or name in FAMILIES:
        return name
    from difflib import get_close_matches

    alike = get_close_matches(name, sorted(KINDS | FAMILIES), n=1)
    advice = f"did you mean {alike[0]}?" if alike else f"choose from {', '.join(sorted(FAMILIES))}"
    raise InvalidInput(f"there are no events of kind {shown(name)}; {advice}")


def name_of_move(start: str, end: str, reason: str, actor: str) -> str:
    """What a move is called in the stream."""
    if end != Status.PENDING:
        return _BY_END[Status(end)]
    if start != Status.RUNNING:
        return "task.reopened"
    return _BACK_BY_REASON.get(reason) or (RECOVERED if actor == RECOVERY else "task.released")


class Cursor(NamedTuple):
    """A place in the stream: behind a position, and behind the creation of a task.

    `forgotten` is up to where its reader was told that parts of the stream are gone.
    """

    pos: int = 0
    task_seq: int = 0
    forgotten: int = 0

    def __str__(self) -> str:
        """As text, which `cursor_of` reads again."""
        parts = self if self.forgotten else self[:2]
        return ".".join(map(str, parts))

    def reaches(self, other: "Cursor") -> bool:
        """Whether all that is up to the other place is up to this one, too."""
        return self.pos >= other.pos and self.task_seq >= other.task_seq


START = Cursor()


class Place(NamedTuple):
    """The stored cursor of a name, and which it is of all that ever began: no two are the same.

    A name that was forgotten and begun anew has another place, which is not its predecessor's.
    """

    cursor: Cursor
    born: int = 0


_MOST_DIGITS = 19


def cursor_of(given: "Cursor | str") -> Cursor:
    """A place as it was given, which may be text."""
    if isinstance(given, Cursor):
        return given
    parts = given.split(".") if isinstance(given, str) else []
    if len(parts) in (2, 3) and all(_is_number(part) for part in parts):
        return Cursor(*map(int, parts))
    raise InvalidInput(
        f"a place in the stream is the cursor of an event, such as 120.45, not {shown(given)}"
    )


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= _MOST_DIGITS


@record(frozen=True, slots=True)
class Event:
    """One thing that happened, never with a task's payload or result."""

    cursor: Cursor
    """Where the stream stands behind it: read on from here."""
    kind: str
    at: datetime
    task_id: str | None = None
    task_kind: str | None = None
    queue: str | None = None
    worker: str | None = None
    run_id: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pos(self) -> int:
        """Its position; of a creation, which has none, that of what came before it."""
        return self.cursor.pos


class Page(NamedTuple):
    """A piece of the stream, and the place behind it."""

    events: list[Event]
    end: Cursor
    is_last: bool
    """Whether the stream ended there when it was read."""


class Created(NamedTuple):
    """A task's creation, as the table of tasks tells it."""

    task_seq: int
    at_ms: int
    task_id: str
    task_kind: str
    queue: str
    data: dict[str, Any]


class Placed(NamedTuple):
    """What has a position: a move, or what is no task's move."""

    pos: int
    at_ms: int
    kind: str
    task_seq: int | None = None
    task_id: str | None = None
    task_kind: str | None = None
    queue: str | None = None
    worker: str | None = None
    run_id: int | None = None
    data: Mapping[str, Any] = {}


def woven(
    after: Cursor, created: Sequence[Created], placed: Sequence[Placed], limit: int
) -> list[Event]:
    """One order of both, each of which is in its own order: up to `limit` events.

    Creations come before the first position that is younger than they are, and before any of
    their own task, whatever the clocks of the processes said.
    """
    events: list[Event] = []
    at, next_created = after, 0
    for one in placed:
        while next_created < len(created) and _comes_first(created[next_created], one):
            at = at._replace(task_seq=created[next_created].task_seq)
            events.append(_creation(created[next_created], at))
            next_created += 1
        at = at._replace(pos=one.pos)
        events.append(_placed(one, at))
        if len(events) >= limit:
            return events[:limit]
    for late in created[next_created:]:
        at = at._replace(task_seq=late.task_seq)
        events.append(_creation(late, at))
    return events[:limit]


def _comes_first(created: Created, placed: Placed) -> bool:
    is_needed = placed.task_seq is not None and created.task_seq <= placed.task_seq
    return is_needed or created.at_ms < placed.at_ms


def _creation(one: Created, at: Cursor) -> Event:
    return Event(
        at, ENQUEUED, utc_of(one.at_ms), one.task_id, one.task_kind, one.queue, data=one.data
    )


def _placed(one: Placed, at: Cursor) -> Event:
    return Event(
        at, one.kind, utc_of(one.at_ms), one.task_id, one.task_kind, one.queue, one.worker,
        one.run_id, one.data,
    )  # fmt: skip


class Subscriber(NamedTuple):
    """A name with a durable place in the stream."""

    name: str
    cursor: Cursor
    behind: int
    """How many positions and creations are still ahead of it, gaps included."""
    created_at: datetime
    moved_at: datetime
    has_lapsed: bool
    """Whether it did not move for so long that nothing is kept for it any more."""
