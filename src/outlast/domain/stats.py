"""What a store's tasks look like in numbers: the backlog, and the three monitoring queries."""

from datetime import datetime

from outlast.domain.lifecycle import Status
from outlast.domain.record import record


@record(frozen=True, slots=True)
class Backlog:
    """What is not finished yet: pending and running tasks, and the groups they belong to."""

    unfinished: int
    groups: tuple[str, ...]

    @property
    def any_unfinished(self) -> bool:
        """Whether there is anything left to do."""
        return self.unfinished > 0


@record(frozen=True, slots=True)
class TaskFigures:
    """The tasks of one kind in one status: how many, and how old they are on average."""

    kind: str
    status: Status
    count: int
    mean_age_hours: float


@record(frozen=True, slots=True)
class LeaseFigures:
    """The leases that are out, those not renewed for two minutes, and the mean time since then.

    `ran_out` counts those whose time is over, by the clock they run on, and that recovery does not
    leave alone because of their kind.
    """

    active: int
    stale: int
    mean_minutes_since_beat: float | None
    ran_out: int = 0


@record(frozen=True, slots=True)
class CheckpointFigures:
    """The checkpoints of one task: how many, the number of the last, and from when to when."""

    task_id: str
    group: str | None
    count: int
    last_sequence: int
    first_at: datetime
    last_at: datetime


@record(frozen=True, slots=True)
class Stats:
    """A store in numbers, all from one moment.

    `checkpoints` are those of the ten tasks that have most; `silent_workers` are the names of
    workers that count as alive and have not been heard of for long; `paused_queues` hand out
    nothing.
    """

    at: datetime
    tasks: tuple[TaskFigures, ...]
    leases: LeaseFigures
    checkpoints: tuple[CheckpointFigures, ...]
    silent_workers: tuple[str, ...]
    paused_queues: tuple[str, ...] = ()
