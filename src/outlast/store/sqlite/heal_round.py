"""What a pass of healing is made of: who heals and how, one sort of orphans, and the tally."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.lifecycle import RECOVERY, Cause, Status, Transition
from outlast.store.records import Batch, Death, Healed, RecoveryPolicy, Unfit
from outlast.store.sqlite.audit import SELF_HEALING
from outlast.store.sqlite.settle import Ending, Standing
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

MOST_NAMED = 100

Find = Callable[[Transaction, int], Sequence[Standing]]
Tell = Callable[[Batch], None]
Last = Callable[[Transaction, Sequence[Transition]], None]


class Write(Protocol):
    """Runs an operation in a durable transaction of its own."""

    def __call__(self, context: str, operation: Callable[[Transaction], T]) -> T:
        """The operation's result, once it is durable."""
        ...


class Round(NamedTuple):
    """One pass: who heals, when, how, in which recorded run, and who hears of its progress."""

    own: str
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


class Sweep(NamedTuple):
    """One sort of orphans: how to find them, why they move, and what ends with the last of them."""

    find: Find
    cause: Callable[[Standing], Cause]
    last: Last = lambda tx, moved: None
    worker: str | None = None
    ended: Callable[[], None] = lambda: None
    """Called once the last of them is committed."""


def became(moved: Sequence[Transition]) -> tuple[int, int]:
    """How many orphans were put back, and how many failed."""
    back = sum(one.to is Status.PENDING for one in moved)
    return back, len(moved) - back


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

    def add(self, endings: Sequence[Ending], moved: Sequence[Transition]) -> None:
        """Count what was moved, and keep the first ids."""
        self.ids += [standing.id for standing, *_ in endings[: MOST_NAMED - len(self.ids)]]
        back, failed = became(moved)
        self.put_back += back
        self.failed += failed
        self.held += sum(one.to is Status.PENDING and one.parked is not None for one in moved)
