"""What a worker looks like from outside: where it lives, what it serves and holds, how it is."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from outlast.domain.record import record


class WorkerState(StrEnum):
    """How a worker is, as far as can be told at the moment of reading.

    Stale is one that lives for all the kernel knows and has not been heard of for long; dead is
    one whose process is gone, whether or not its tasks were put back yet.
    """

    ALIVE = "alive"
    STALE = "stale"
    LEFT = "left"
    DEAD = "dead"


class PreviousStop(StrEnum):
    """How the store was left by those who served it before."""

    CLEAN = "clean"
    UNCLEAN = "unclean"
    NONE = "none"
    IN_USE = "in use"


@record(frozen=True, slots=True)
class Serves:
    """Which tasks a worker takes, and how many at once; kinds None: whatever there is."""

    queues: tuple[str, ...]
    kinds: tuple[str, ...] | None
    concurrency: int | None

    def takes(self, kind: str, queue: str) -> bool:
        """Whether a task of this kind in this queue would be taken."""
        return queue in self.queues and (self.kinds is None or kind in self.kinds)


@record(frozen=True, slots=True)
class StuckHandler:
    """A handler that goes on although its task timed out or was cancelled."""

    task_id: str
    kind: str
    since: datetime


@record(frozen=True, slots=True)
class WorkerInfo:
    """One process under one worker name, as it was at the moment of reading.

    `task_ids` are the first thousand of the `task_count` tasks it holds; `beat_task_id` is the
    one that its last beat by hand named. `serves` is None for one that claims by hand.
    """

    name: str
    incarnation: str
    host: str
    pid: int
    state: WorkerState
    registered_at: datetime
    beat_at: datetime
    silent_seconds: float
    ended_at: datetime | None
    task_ids: tuple[str, ...]
    task_count: int
    beat_task_id: str | None
    progress: Any
    serves: Serves | None
    stuck: tuple[StuckHandler, ...]
