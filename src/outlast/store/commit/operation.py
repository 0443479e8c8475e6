"""One caller's change on its way into the store, and the future of its answer."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from outlast.errors import OutcomeUnknown
from outlast.store.topics import NOBODY, Topic
from outlast.store.transaction import Row

if TYPE_CHECKING:
    from outlast.store.commit.commit_queue import CommitQueue

T = TypeVar("T")
U = TypeVar("U")

# Runs the inputs of several alike operations at once, and answers for each.
Together = Callable[[Any, Sequence[Any]], Sequence[Any]]

# Says the same by one statement: its name, its rows, the values that stand for all of them, and the
# answer to each operation; None if it cannot be said so.
Statement = tuple[str, Sequence[Row], Row, Sequence[Any]]
AsStatement = Callable[[Sequence[Any]], Statement | None]

# Makes something of what waits for an operation and returns or raises its outcome.
Finish = Callable[[Callable[[], Any]], Any]


class Operation(msgspec.Struct, Generic[T], eq=False):
    """One caller's change: run once or more often before it is committed, and decided once.

    `task_ids` are what the caller can ask resolve() about, should a commit's fate be unknown;
    `in_doubt` is called in that case before any other operation runs. `together` runs the inputs
    of several such operations at once, and `as_statement` may say them all by one statement, which
    is a transaction by itself. `wakes` says who waits for it. An `is_exclusive` one manages its own
    transaction, as a flush does.
    """

    queue: "CommitQueue | None"
    context: str
    run: Callable[[Any], T]
    task_ids: Iterable[str] = ()
    alone: bool = False
    together: Together | None = None
    inputs: Any = None
    wakes: frozenset[Topic] = NOBODY
    in_doubt: Callable[[], None] | None = None
    as_statement: AsStatement | None = None
    is_exclusive: bool = False
    finish: Finish | None = None
    is_decided: bool = False
    committed: bool = False
    # The result, and an error of its own, with which there is nothing of it to be committed. Both
    # count only once the others are committed: what it found in its way may be one of them.
    answer: Any = None
    error: BaseException | None = None
    # What wakes its caller: a thread's lock, or a coroutine's loop and future.
    asleep: Any = None
    awaited: Any = None
    # Its caller has taken it out of the queue, so nobody else will decide it.
    is_own: bool = False
    # Its caller was interrupted twice and has gone; nobody will take the answer.
    is_abandoned: bool = False

    def fail(self, error: BaseException) -> None:
        """It did not happen, or nobody can say; the first verdict stands."""
        if not self.is_decided:
            self.error = error
            self.is_decided = True

    def doubt(self, cause: object) -> None:
        """Its transaction may or may not be durable; nobody runs before this is noted."""
        if not self.is_decided and self.in_doubt is not None:
            self.in_doubt()
        self.fail(self.unknown(cause))

    def unknown(self, cause: object) -> OutcomeUnknown:
        """The error of one whose fate nobody can tell."""
        unknown = OutcomeUnknown(list(self.task_ids), cause)
        unknown.__cause__ = cause if isinstance(cause, BaseException) else None
        return unknown

    def then(self, finish: Callable[[Callable[[], T]], U]) -> "Operation[U]":
        """The same with something to be done, in the caller's own thread, once it is decided."""
        before = self.finish
        self.finish = finish if before is None else lambda told: finish(lambda: before(told))
        return cast("Operation[U]", self)

    def result(self) -> T:
        """Wait as a thread until it is durable; raises what became of it."""
        return self._told() if self.finish is None else self.finish(self._told)

    def _told(self) -> T:
        if not self.is_decided and self.queue is not None:
            self.queue.wait(self)
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, T]:
        """Wait as a coroutine. Cancelled before it was taken, it never happens; cancelled too late,
        it is finished all the same."""
        assert self.queue is not None, "what is run at once is not waited for"
        try:
            yield from self.queue.waited(self)
        except BaseException:
            if self.committed:
                with suppress(Exception):
                    self.result()
            raise
        return self.result()
