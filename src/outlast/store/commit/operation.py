"""One caller's change on its way into the store, and the future of its answer."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from outlast.errors import OutcomeUnknown

T = TypeVar("T")
U = TypeVar("U")

# Runs the inputs of several alike operations at once, and answers for each.
Together = Callable[[Any, Sequence[Any]], Sequence[Any]]

NOBODY: frozenset[Any] = frozenset()


class Queue(Protocol):
    """What sees an operation through to its commit."""

    def wait(self, operation: "Operation[Any]") -> None:
        """Return once the operation is decided; the calling thread sleeps until then."""
        ...

    def waited(self, operation: "Operation[Any]") -> Generator[Any, None, None]:
        """The same for a coroutine on the running loop."""
        ...


class Operation(msgspec.Struct, Generic[T], eq=False):
    """One caller's change; it may be run more than once before it is committed, and is decided once.

    `task_ids` are what the caller can ask resolve() about, should a commit's fate be unknown;
    `in_doubt` is called in that case before any other operation runs. `together` runs the inputs
    of several such operations at once. `wakes` says who waits for it. An `is_exclusive` one
    manages its own transaction, as a flush does.
    """

    queue: Queue
    context: str
    run: Callable[[Any], T]
    task_ids: Iterable[str] = ()
    alone: bool = False
    together: Together | None = None
    inputs: Any = None
    wakes: frozenset[Any] = NOBODY
    in_doubt: Callable[[], None] | None = None
    is_exclusive: bool = False
    is_decided: bool = False
    committed: bool = False
    answer: Any = None
    # Of its own; while there is one, there is nothing of it to be committed.
    error: BaseException | None = None
    # What wakes its caller: the lock that a thread sleeps on, or the loop and future of a coroutine.
    asleep: Any = None
    awaited: Any = None
    # Its caller was interrupted twice and has gone; nobody will take the answer.
    is_abandoned: bool = False

    def ran(self, result: Any) -> None:
        """It was run; the result counts only if the commit succeeds."""
        if not self.is_decided:
            self.answer, self.error = result, None

    def refuse(self, error: BaseException) -> None:
        """It has an error of its own, which counts only if the others are committed: what it
        found in its way may be one of them."""
        if not self.is_decided:
            self.error = error

    def succeed(self) -> None:
        """Its transaction is durable, and with it the answer to this one."""
        if not self.is_decided:
            self.committed = self.error is None
            self.is_decided = True
            if self.is_abandoned and self.committed and self.in_doubt is not None:
                self.in_doubt()

    def fail(self, error: BaseException) -> None:
        """It did not happen, or nobody can say; the first verdict stands."""
        if not self.is_decided:
            self.error = error
            self.is_decided = True

    def doubt(self, cause: object) -> None:
        """Its transaction may or may not be durable; nobody runs before this is noted."""
        if self.is_decided:
            return
        if self.in_doubt is not None:
            self.in_doubt()
        self.fail(self.unknown(cause))

    def unknown(self, cause: object) -> OutcomeUnknown:
        """The error of one whose fate nobody can tell."""
        unknown = OutcomeUnknown(list(self.task_ids), cause)
        unknown.__cause__ = cause if isinstance(cause, BaseException) else None
        return unknown

    def outcome(self) -> T:
        """The result, or the error that was its own; asked for once it is decided."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer  # type: ignore[no-any-return]

    def result(self) -> T:
        """Wait as a thread until it is durable; raises what became of it."""
        if not self.is_decided:
            self.queue.wait(self)
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer  # type: ignore[no-any-return]

    def waited(self) -> Generator[Any, None, None]:
        """Wait as a coroutine until it is decided; raises nothing but a cancellation."""
        return self.queue.waited(self)

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for it in a coroutine. Cancelled before it was taken, it never happens."""
        yield from self.queue.waited(self)
        return self.outcome()

    def then(self, finish: Callable[[Callable[[], T]], U]) -> "Then[T, U]":
        """A future of what `finish` makes of this one's outcome, in the caller's own thread."""
        return Then(self, finish)


class Then(Generic[T, U]):
    """An operation with something to be done once it is decided."""

    __slots__ = ("_before", "_finish")

    def __init__(
        self, before: "Operation[T] | Then[Any, T]", finish: Callable[[Callable[[], T]], U]
    ) -> None:
        self._before = before
        self._finish = finish

    @property
    def committed(self) -> bool:
        """Whether the operation is durable."""
        return self._before.committed

    def outcome(self) -> U:
        """What becomes of the outcome; asked for once the operation is decided."""
        return self._finish(self._before.outcome)

    def result(self) -> U:
        """Wait as a thread."""
        return self._finish(self._before.result)

    def waited(self) -> Generator[Any, None, None]:
        """Wait as a coroutine until the operation is decided."""
        return self._before.waited()

    def __await__(self) -> Generator[Any, None, U]:
        """Wait as a coroutine; one that was cancelled too late has it finished all the same."""
        try:
            yield from self.waited()
        except BaseException:
            if self.committed:
                with suppress(Exception):
                    self.outcome()
            raise
        return self.outcome()

    def then(self, finish: Callable[[Callable[[], U]], Any]) -> "Then[U, Any]":
        """One more thing to be done."""
        return Then(self, finish)
