"""What the store shows between two slices of a simulation, and what is known of its causes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

TASKS = """
    SELECT seq, id, status, parked, not_before, attempt, retry_count, recovery_count,
           crashes_in_row, max_retries, max_recoveries, token, worker_id, lease_expires_mono_ms,
           unstarted, queue, kind, priority, group_id, retry_of,
           (SELECT count(*) FROM task_checkpoints c WHERE c.task_seq = tasks.seq
                AND c.checkpoint_type NOT IN ('iteration_start', 'error_boundary'))
    FROM tasks"""
MOVES = """
    SELECT pos, task_seq, from_status, to_status, actor, reason, attempt, token, worker_id
    FROM transitions WHERE pos > ? ORDER BY pos"""
PAUSED = "SELECT name FROM queues"


class Row(NamedTuple):
    """A task as it is stored."""

    seq: int
    id: str
    status: str
    parked: str | None
    not_before: int | None
    attempt: int
    retries: int
    recoveries: int
    crashes_in_row: int
    max_retries: int
    max_recoveries: int | None
    token: int
    worker: str | None
    ends: int | None
    unstarted: int
    queue: str
    kind: str
    priority: int
    group: str | None
    retry_of: str | None
    progress: int
    """How often its handlers recorded that something was done."""

    @property
    def parking(self) -> tuple[str | None, int | None]:
        """Why it waits, and until when if it is for a time."""
        return self.parked, self.not_before if self.parked == "delay" else None

    @property
    def lease(self) -> tuple[str, int]:
        """The lease that is or was last out on it."""
        return self.id, self.token


class Move(NamedTuple):
    """A transition that was written since the last look."""

    pos: int
    task_seq: int
    from_status: str
    to_status: str
    actor: str
    reason: str
    attempt: int
    token: int
    worker: str | None


class Look(NamedTuple):
    """All that changed and all that is there."""

    tasks: dict[int, Row]
    moves: list[Move]
    paused: frozenset[str]


@dataclass(eq=False)
class Life:
    """One process from its start to its end."""

    process: str
    is_dead: bool = False


@dataclass(eq=False)
class Opening:
    """One Outlast object's use of the store, until it is closed."""

    life: Life
    is_serving: bool = False
    is_closing: bool = False
    healed: int = 0


@dataclass(eq=False)
class Ongoing:
    """A call of an actor that is under way, and what it was seen to do."""

    worker: str
    verb: str
    args: dict[str, Any]
    opening: Opening
    asked_utc: int
    leases: frozenset[tuple[str, int]] = frozenset()
    task_ids: frozenset[str] = frozenset()
    gained: set[tuple[str, int]] = field(default_factory=set)
    settled: set[tuple[str, int]] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    healed: int = 0
    answer: Any = None
    opens: bool = False
    """Whether it may have to open the store first, which recovers it."""
    queued_at: int | None = None
    """Its place among the writes that wait for whoever leads next."""


@dataclass(eq=False)
class Holder:
    """Who got a lease, by which object, for how long; and whether its work has begun."""

    worker: str
    opening: Opening
    length_ms: int
    begun: bool


class Window:
    """A connection of the simulation's own, through which it looks at the store."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(5000)
        self._version: int | None = None
        self._seen = 0

    def look(self) -> Look | None:
        """What there is to be seen, or None when nothing was committed since the last look."""
        version = self._connection.pragma("data_version")
        if version == self._version:
            return None
        self._version = version
        with self._connection:
            tasks = {row[0]: Row._make(row) for row in self._connection.execute(TASKS)}
            moves = [Move._make(row) for row in self._connection.execute(MOVES, (self._seen,))]
            paused = frozenset(name for (name,) in self._connection.execute(PAUSED))
        if moves:
            self._seen = moves[-1].pos
        return Look(tasks, moves, paused)

    def close(self) -> None:
        """Stop looking."""
        self._connection.close()
