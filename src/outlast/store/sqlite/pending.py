"""The future of an operation: threads that ask for it lead or wait, coroutines await it."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from outlast.errors import OutcomeUnknown
from outlast.store.sqlite.operation import Adding, Exclusive, Operation

T = TypeVar("T")
U = TypeVar("U")

# Where an operation stands: not yet queued, queued, in a group under way, its fate known.
NEW, WAITING, TAKEN, DECIDED = range(4)


class Turn:
    """What one caller sleeps on; an early wake-up is kept, and one too many is harmless."""

    __slots__ = ("_lock", "wait")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        # Called with True and the seconds: sleep until woken, or until the time is up.
        self.wait = self._lock.acquire

    def wake(self) -> None:
        """Wake the sleeper, now or when it next lies down."""
        try:
            self._lock.release()
        except RuntimeError:
            # It was woken already, and does not know it yet.
            return


class Guide(Protocol):
    """Sees an operation through to its commit."""

    def see_through(self, pending: "Pending[Any]") -> None:
        """Return once the fate of the operation is known."""
        ...

    def seen_through(self, pending: "Pending[Any]") -> Generator[Any, None, None]:
        """The same for a coroutine on the running loop."""
        ...


class Pending(msgspec.Struct, Generic[T], eq=False):
    """An operation on its way; its fate is decided once, by whoever led its group."""

    operation: Operation[T] | Exclusive[T] | Adding
    _guide: Guide
    stage: int = NEW
    committed: bool = False
    turn: Turn | None = None
    ear: Any = None
    answer: Any = None
    # Of its own; while there is one, there is nothing of it to be committed.
    error: BaseException | None = None

    def ran(self, result: Any) -> None:
        """It was run; the result counts only if the commit succeeds."""
        if self.stage != DECIDED:
            self.answer, self.error = result, None

    def refuse(self, error: BaseException) -> None:
        """It has an error of its own, which counts only if the others are committed: what it
        found in its way may be one of them."""
        if self.stage != DECIDED:
            self.error = error

    def succeed(self) -> None:
        """Its transaction is durable, and with it the answer to this one."""
        all_succeed((self,))

    def fail(self, error: BaseException) -> None:
        """It did not happen, or nobody can say; the first verdict stands."""
        if self.stage != DECIDED:
            self.error = error
            self.stage = DECIDED

    def stand_alone(self) -> None:
        """From now on it shares no transaction, and is run by its own caller."""
        self.operation = msgspec.structs.replace(self.operation, alone=True)
        self.turn = None

    def doubt(self, cause: object) -> None:
        """Its transaction may or may not be durable; nobody runs before this is noted."""
        if self.stage == DECIDED:
            return
        if self.operation.in_doubt is not None:
            self.operation.in_doubt()
        unknown = OutcomeUnknown(list(self.operation.task_ids), cause)
        unknown.__cause__ = cause if isinstance(cause, BaseException) else None
        self.fail(unknown)

    def outcome(self) -> T:
        """The result, or the error that was its own."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer  # type: ignore[no-any-return]

    def result(self) -> T:
        """Wait until it is durable, leading a group if nobody does; raises what became of it."""
        if self.stage != DECIDED:
            self._guide.see_through(self)
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.answer  # type: ignore[no-any-return]

    def waited(self) -> Generator[Any, None, None]:
        """Until its fate is known; raises nothing but a cancellation."""
        return self._guide.seen_through(self)

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for it in a coroutine. Cancelled before it was begun, it never happens."""
        yield from self._guide.seen_through(self)
        return self.outcome()

    def then(self, finish: Callable[[Callable[[], T]], U]) -> "Then[T, U]":
        """A future of what `finish` makes of this one's outcome, in the caller's own thread."""
        return Then(self, finish)


def all_ran(members: Sequence[Pending[Any]], results: Sequence[Any]) -> None:
    """The same as each one's `ran`, for many at once."""
    for member, result in zip(members, results, strict=True):
        if member.stage != DECIDED:
            member.answer, member.error = result, None


def all_succeed(members: Sequence[Pending[Any]]) -> None:
    """Their transaction is durable, and with it the answer to each that is not decided yet."""
    for member in members:
        if member.stage != DECIDED:
            member.committed = member.error is None
            member.stage = DECIDED


class Group(msgspec.Struct, eq=False):
    """The operations of one transaction, and how far it has come."""

    members: Sequence[Pending[Any]]
    commit_sent: bool = False


def fail_all(group: Group | None, error: Exception) -> None:
    """What was sent to be committed and is still undecided is in doubt, and not failed here."""
    for member in group.members if group and not group.commit_sent else ():
        member.fail(error)


class Then(Generic[T, U]):
    """A pending operation with something to be done once its fate is known."""

    __slots__ = ("_finish", "_pending")

    def __init__(
        self, pending: "Pending[T] | Then[Any, T]", finish: Callable[[Callable[[], T]], U]
    ) -> None:
        self._pending = pending
        self._finish = finish

    @property
    def committed(self) -> bool:
        """Whether the operation is durable."""
        return self._pending.committed

    def outcome(self) -> U:
        """What becomes of the outcome; asked for once the fate is known."""
        return self._finish(self._pending.outcome)

    def result(self) -> U:
        """Wait as a thread."""
        return self._finish(self._pending.result)

    def waited(self) -> Generator[Any, None, None]:
        """Until the operation's fate is known."""
        return self._pending.waited()

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
