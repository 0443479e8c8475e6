"""What travels to the writer: one caller's change, and how it may share a transaction."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import apsw
import msgspec

from outlast.clock import Instant
from outlast.store.new_tasks import NewTask
from outlast.store.ops.tasks import add_tasks, add_together
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import Topic

T = TypeVar("T")

Together = Callable[[Transaction, Sequence[Any]], Sequence[Any]]

NOBODY: frozenset[Topic] = frozenset()
FOLLOWING = frozenset({Topic.NEWS})
LOOKING_FOR_WORK = frozenset({Topic.WORK}) | FOLLOWING
WAITING_FOR_RESULTS = frozenset({Topic.DONE}) | FOLLOWING
WAITING_FOR_LOCKS = frozenset({Topic.LOCK}) | FOLLOWING
ANYBODY = frozenset(Topic)


class Operation(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """One caller's change; it may be run more than once before it is committed.

    `task_ids` are what the caller can ask resolve() about, should a commit's fate be unknown;
    `in_doubt` is called in that case before any other operation runs. `together` runs the inputs
    of several such operations at once and answers for each. `wakes` says who waits for it.
    """

    context: str
    run: Callable[[Transaction], T]
    task_ids: Iterable[str] = ()
    alone: bool = False
    together: Together | None = None
    inputs: Any = None
    wakes: frozenset[Topic] = NOBODY
    in_doubt: Callable[[], None] | None = None
    is_exclusive: ClassVar[bool] = False


class Adding(msgspec.Struct, frozen=True, eq=False):
    """The operation that callers ask for most, made of nothing but what it is about."""

    inputs: tuple[Sequence[NewTask], Instant]
    alone: bool
    context: ClassVar[str] = "enqueue"
    together = staticmethod(add_together)
    wakes: ClassVar[frozenset[Topic]] = LOOKING_FOR_WORK
    in_doubt: ClassVar[None] = None
    is_exclusive: ClassVar[bool] = False

    def run(self, tx: Transaction) -> list[str]:
        """Insert the tasks."""
        return add_tasks(tx, *self.inputs)

    @property
    def task_ids(self) -> list[str]:
        """What a caller in doubt may ask for."""
        return [task.id for task in self.inputs[0]]


class Exclusive(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """Something that manages its own transaction, such as a flush; it takes its turn like all."""

    context: str
    action: Callable[[apsw.Connection], T]
    task_ids: Iterable[str] = ()
    alone: bool = True
    wakes: frozenset[Topic] = NOBODY
    in_doubt: None = None
    # It comes after whoever writes already, with or without the gate.
    is_flush: bool = False
    is_exclusive: ClassVar[bool] = True
