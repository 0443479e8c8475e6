"""What the verbs of a store work with: reads, the commit queue, and who is present."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from outlast.errors import StoreError
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.commit.operation import Operation, Together
from outlast.store.counters import Counts
from outlast.store.engine import Engine
from outlast.store.presence import Presence
from outlast.store.topics import NOBODY, Topic
from outlast.store.transaction import Transaction

T = TypeVar("T")

# Larger batches have a transaction to themselves, so that nobody small waits for them twice.
SHARED_LIMIT = 1000


class Access:
    """One for all nouns of a store; without a commit queue it can only be read."""

    def __init__(self, engine: Engine, queue: CommitQueue | None) -> None:
        self.engine = engine
        self._queue = queue
        # Bound once, for it is asked at each call.
        self.read = engine.read
        self.counts = Counts()
        """What this process counts and no row shows."""
        self.came_up_empty = False
        """Whether the last claim found nothing, so that the next one asks by reading first."""

    @property
    def presence(self) -> Presence:
        """Who lives, as far as the engine knows."""
        return self.engine.presence

    @property
    def queue(self) -> CommitQueue:
        """The way to a commit."""
        if self._queue is None:
            raise StoreError("this store was opened only to look; open it to serve")
        return self._queue

    def write(
        self,
        context: str,
        operation: Callable[[Transaction], T],
        task_ids: Iterable[str] = (),
        *,
        alone: bool = False,
        wakes: frozenset[Topic] = NOBODY,
    ) -> T:
        """Commit an operation and wait for it."""
        return Operation(
            self.queue, context, operation, task_ids, alone=alone, wakes=wakes
        ).result()

    def submit(
        self,
        context: str,
        operation: Callable[[Transaction], T],
        task_ids: Iterable[str] = (),
        *,
        alone: bool = False,
        together: Together | None = None,
        inputs: Any = None,
        wakes: frozenset[Topic] = NOBODY,
        in_doubt: Callable[[], None] | None = None,
    ) -> Operation[T]:
        """An operation that is committed when somebody asks for its result or awaits it."""
        return Operation(
            self.queue, context, operation, task_ids, alone, together, inputs, wakes, in_doubt
        )


def is_crowd(things: Sequence[object]) -> bool:
    """Whether there are so many that they get a transaction to themselves."""
    return len(things) > SHARED_LIMIT
