"""One execution of one task: from its payload to a result or an error, both ready to be stored."""

import inspect
import threading
import traceback
from pathlib import Path
from typing import Any

from outlast.domain import codec
from outlast.domain.record import record
from outlast.errors import GiveBack, InvalidInput, PermanentError
from outlast.store.records import Claimed
from outlast.tasks.arguments import dumped, is_model
from outlast.tasks.context import Context
from outlast.tasks.functions import AnyFunction

MAX_MESSAGE_CHARACTERS = 2000
MAX_FRAMES = 20

_PACKAGE = Path(__file__).parents[1]
# What stands between a worker and a handler tells its author nothing.
_OUR_FOLDERS = tuple(f"{_PACKAGE / name}/" for name in ("app", "maintenance", "tasks", "worker"))


@record(frozen=True, slots=True)
class Ended:
    """How an execution ended: with a result as JSON text, or with an error in words."""

    result: str | None = None
    error: str | None = None
    retryable: bool = True
    exit_signal: int | None = None
    peak_memory_bytes: int | None = None
    is_given_back: bool = False

    @property
    def error_type(self) -> str:
        """What may be logged of an error: its type, and nothing that a payload may be in."""
        return (self.error or "").partition(":")[0].partition("\n")[0][:200]


def execute(function: AnyFunction, claimed: Claimed, ctx: Context) -> Ended:
    """Run a plain function in the calling thread; whatever it raises is an outcome."""
    try:
        return _succeeded(function.fn(*_positional(function, ctx), **_arguments(function, claimed)))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            # Meant for the program, which runs this handler itself.
            raise
        return failed(error)


async def execute_async(function: AnyFunction, claimed: Claimed, ctx: Context) -> Ended:
    """The same for a coroutine function, on the running loop."""
    try:
        return _succeeded(
            await function.fn(*_positional(function, ctx), **_arguments(function, claimed))
        )
    except BaseException as error:
        return failed(error)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def failed(error: BaseException) -> Ended:
    """An error as an outcome; what can never succeed is not tried again."""
    if isinstance(error, GiveBack):
        return Ended(is_given_back=True)
    return Ended(error=failure_text(error), retryable=not isinstance(error, PermanentError | Unfit))


class Unfit(PermanentError):
    """The arguments do not fit the function, or its result cannot be stored."""


def _arguments(function: AnyFunction, claimed: Claimed) -> dict[str, Any]:
    try:
        return function.arguments_in(claimed.payload)
    except InvalidInput as error:
        raise Unfit(str(error)) from None


def _positional(function: AnyFunction, ctx: Context) -> tuple[Any, ...]:
    return (ctx,) if function.wants_context else ()


def _succeeded(result: Any) -> Ended:
    if result is None:
        return _NOTHING
    if inspect.iscoroutine(result):
        result.close()
        raise Unfit("it is async behind a plain wrapper; make the wrapper async, or drop it")
    try:
        plain = dumped(result) if is_model(type(result)) else result
        return Ended(codec.encode(plain, "result"))
    except InvalidInput as error:
        raise Unfit(f"the work was done, but {error}") from None


_NOTHING = Ended()


def failure_text(error: BaseException) -> str:
    """What is kept of an error: type, message (capped) and frames; never values or source lines."""
    message = _message(error)
    if len(message) > MAX_MESSAGE_CHARACTERS:
        message = f"{message[:MAX_MESSAGE_CHARACTERS]} … ({len(message)} characters in all)"
    head = f"{type(error).__name__}: {message}" if message else type(error).__name__
    lines = [
        f"  in {frame.name} ({Path(frame.filename).name}:{frame.lineno})"
        for frame in _frames(error)
    ]
    return "\n".join([head, *lines]).encode(errors="backslashreplace").decode()


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be told)"


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    found = traceback.StackSummary.extract(
        traceback.walk_tb(error.__traceback__), lookup_lines=False
    )
    theirs = [frame for frame in found if not frame.filename.startswith(_OUR_FOLDERS)]
    return theirs[-MAX_FRAMES:]
