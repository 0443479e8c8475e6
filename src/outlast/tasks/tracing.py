"""Where somebody who traces is told: a task is stored, an attempt begins and ends.

Nobody is told unless `use_tracing` was called; then the context of the enqueue is stored with the
task, and each attempt that is traced notes its own, so that the next one can refer to it. What a
tracer gets wrong never touches the work.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from outlast.errors import OutlastError
from outlast.logs import logger
from outlast.store.future import Future
from outlast.store.new_tasks import NewTask
from outlast.store.records import Claimed, TaskTrace, Trace

if TYPE_CHECKING:
    from outlast.tasks.execute import Ended
    from outlast.tasks.functions import AnyFunction

log = logger("outlast.tracing")


class Sending(Protocol):
    """An enqueue under way."""

    trace: Trace | None
    """What is to be stored with its tasks, if anything."""

    def end(self, error: BaseException | None) -> None:
        """It is over: stored, unless there is an error."""
        ...


class Attempt(Protocol):
    """One execution of a task."""

    trace: Trace | None
    """What the next attempt, and a handler in a process of its own, may refer to."""

    def current(self) -> AbstractContextManager[object]:
        """While the handler runs: what it traces is part of this attempt."""
        ...

    def end(self, ended: "Ended | None") -> None:
        """It is over; None: it was broken off, and nobody knows how it went."""
        ...


class Tracing(Protocol):
    """Somebody who traces; `outlast.otel` is one for OpenTelemetry."""

    def sending(self, new: Sequence[NewTask]) -> Sending:
        """Tasks are about to be stored."""
        ...

    def attempt(self, claimed: Claimed, before: TaskTrace | None) -> Attempt:
        """A handler is about to run; `before` is what is stored about its task."""
        ...

    def inside(self, trace: Trace) -> AbstractContextManager[object]:
        """In the process of a handler: what it traces is part of an attempt of another one."""
        ...


@contextmanager
def ended_with(sending: Sending | None) -> Iterator[None]:
    """The enqueue is over with this block."""
    try:
        yield
    except BaseException as error:
        if sending is not None:
            _heard(partial(sending.end, error))
        raise
    if sending is not None:
        _heard(partial(sending.end, None))


def begun_sending(tracing: Tracing | None, new: Sequence[NewTask]) -> Sending | None:
    """Tell of an enqueue, if anybody wants to know."""
    if tracing is None:
        return None
    try:
        return tracing.sending(new)
    except Exception as error:
        log.warning("an enqueue is not traced: %s", error)
        return None


def traced(
    function: "AnyFunction", claimed: Claimed, execute: Callable[[Trace | None], "Ended"]
) -> "Ended":
    """Execute, with whoever traces told of it; a thread waits until the attempt is noted."""
    attempt = _begun(function, claimed)
    if attempt is None:
        return execute(None)
    ended: Ended | None = None
    try:
        if attempt.trace is not None:
            _noted(function, claimed, attempt.trace)
        with _inside(attempt.current):
            ended = execute(attempt.trace)
    finally:
        _heard(partial(attempt.end, ended))
    return ended


def _begun(function: "AnyFunction", claimed: Claimed) -> Attempt | None:
    family = function.family
    if family is None or family.tracing is None:
        return None
    try:
        before = family.serve().store.trace_of(claimed.grant.seq)
        return family.tracing.attempt(claimed, before)
    except Exception as error:
        log.warning("attempt %d of task %s is not traced: %s", claimed.attempt, claimed.task_id,
                    error)  # fmt: skip
        return None


def _note(function: "AnyFunction", claimed: Claimed, trace: Trace) -> Future[bool]:
    assert function.family is not None
    store = function.family.serve().store
    return store.note_trace_soon(claimed.grant, trace.traceparent)


def _noted(function: "AnyFunction", claimed: Claimed, trace: Trace) -> None:
    try:
        _note(function, claimed, trace).result()
    except OutlastError as error:
        log.warning("an attempt's trace could not be noted: %s", error)


def _heard(tell: Callable[[], None]) -> None:
    """Tell a tracer that something is over; what was stored or done stays so."""
    try:
        tell()
    except Exception as error:
        log.warning("what has ended could not be traced: %s", error)


@contextmanager
def _inside(block: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Inside a tracer's block, if it can be entered and left; what happens here it cannot see."""
    entered = ExitStack()
    try:
        entered.enter_context(block())
    except Exception as error:
        log.warning("what a handler traces stands alone: %s", error)
    try:
        yield
    finally:
        _heard(entered.close)


@contextmanager
def traced_on_loop(function: "AnyFunction", claimed: Claimed) -> "Iterator[OnLoop | None]":
    """The same for a coroutine, which notes and executes inside the block; None: nobody traces."""
    attempt = _begun(function, claimed)
    if attempt is None:
        yield None
        return
    execution = OnLoop(function, claimed, attempt)
    try:
        with _inside(attempt.current):
            yield execution
    finally:
        _heard(partial(attempt.end, execution.ended))


class OnLoop:
    """An attempt on an event loop, which must not be held up by a commit."""

    def __init__(self, function: "AnyFunction", claimed: Claimed, attempt: Attempt) -> None:
        self._function = function
        self._claimed = claimed
        self._attempt = attempt
        self.ended: Ended | None = None

    async def note(self) -> None:
        """Note which attempt this is; the coroutine waits for it, its loop does not."""
        trace = self._attempt.trace
        if trace is None:
            return
        try:
            await _note(self._function, self._claimed, trace)
        except OutlastError as error:
            log.warning("an attempt's trace could not be noted: %s", error)


@contextmanager
def inside(function: "AnyFunction", trace: Trace | None) -> Iterator[None]:
    """In a handler's own process: part of the attempt that its worker traces."""
    family = function.family
    if trace is None or family is None or family.tracing is None:
        yield
        return
    with _inside(partial(family.tracing.inside, trace)):
        yield
