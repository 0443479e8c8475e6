"""What a pass of healing is made of: who heals and how, one sort of orphans, and the tally."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.lifecycle import RECOVERY, Cause, Status
from outlast.store.ops.audit import SELF_HEALING
from outlast.store.ops.settle import Moved, SameRows, TaskRow
from outlast.store.records import Batch, Death, Healed, RecoveryPolicy, Unfit
from outlast.store.transaction import Transaction

T = TypeVar("T")

MOST_NAMED = 100

_DECIDING = (
    "status", "attempt", "retry_count", "recovery_count", "crashes_in_row", "max_retries",
    "max_recoveries", "worker", "unstarted", "kind",
)  # fmt: skip
_likeness = itemgetter(*map(TaskRow._fields.index, _DECIDING))

Find = Callable[[Transaction, int], Sequence[TaskRow]]
Tell = Callable[[Batch], None]
Last = Callable[[Transaction, Sequence[Moved]], None]


class Write(Protocol):
    """Runs an operation in a durable transaction of its own."""

    def __call__(self, context: str, operation: Callable[[Transaction], T]) -> T:
        """The operation's result, once it is durable."""
        ...


class RecoveryPass(NamedTuple):
    """One pass: who heals, when, how, in which recorded run, and who hears of its progress."""

    now: Instant
    policy: RecoveryPolicy
    run_id: int | None = None
    tell: Tell = lambda batch: None
    is_thorough: bool = False
    actor: str = RECOVERY
    stopped: Callable[[Healed], None] = lambda healed: None
    source: str = SELF_HEALING
    act: str = "heal"
    """By which way in it was ordered, and what as: for the audit."""

    @property
    def operator(self) -> str | None:
        """Who ordered it, if anybody did."""
        return None if self.actor == RECOVERY else self.actor


class OrphanQuery(NamedTuple):
    """One sort of orphans: how to find them, why they move, and what ends with the last of them."""

    find: Find
    cause: Callable[[TaskRow], Cause]
    last: Last = lambda tx, moved: None
    worker: str | None = None
    ended: Callable[[], None] = lambda: None
    """Called once the last of them is committed."""


def alike(found: Sequence[TaskRow], cause: Callable[[TaskRow], Cause]) -> list[SameRows]:
    """Those that differ in nothing that decides what becomes of them and is said of it.

    Whether one that had not been started was begun after all, its cause alone knows.
    """
    by_likeness: dict[object, list[TaskRow]] = {}
    # Most neighbours are alike, and finding that out takes no step of the interpreter.
    for likeness, neighbours in groupby(found, _likeness):
        by_likeness.setdefault(likeness, []).extend(neighbours)
    groups: list[SameRows] = []
    for rows in by_likeness.values():
        if not rows[0].unstarted:
            groups.append(SameRows(rows, cause(rows[0])))
            continue
        by_cause: dict[Cause, list[TaskRow]] = {}
        for task in rows:
            by_cause.setdefault(cause(task), []).append(task)
        groups += [SameRows(same, why) for why, same in by_cause.items()]
    return groups


def became(moved: Sequence[Moved]) -> tuple[int, int]:
    """How many orphans were put back, and how many failed."""
    back = sum(len(one.rows) for one in moved if one.transition.to is Status.PENDING)
    return back, sum(len(one.rows) for one in moved) - back


class Tally:
    """What a pass has done so far."""

    def __init__(self) -> None:
        self.put_back = 0
        self.failed = 0
        self.held = 0
        self.locks_freed = 0
        self.deaths: list[Death] = []
        self.unfit: list[Unfit] = []
        self.ids: list[str] = []

    def so_far(self) -> Healed:
        """As far as it went."""
        return Healed(
            self.put_back, self.failed, tuple(one.worker for one in self.deaths), self.held,
            deaths=tuple(self.deaths), unfit=tuple(self.unfit), locks_freed=self.locks_freed,
        )  # fmt: skip

    def add(self, found: Sequence[TaskRow], moved: Sequence[Moved]) -> None:
        """Count what was moved, and keep the first ids."""
        self.ids += [task.id for task in found[: MOST_NAMED - len(self.ids)]]
        back, failed = became(moved)
        self.put_back += back
        self.failed += failed
        self.held += sum(
            len(rows)
            for rows, _, transition in moved
            if transition.to is Status.PENDING and transition.parked is not None
        )
