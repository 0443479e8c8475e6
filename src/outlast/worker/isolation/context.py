"""The context of an isolated handler: asked in its own process, done in the worker's."""

import builtins
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from outlast import errors
from outlast.domain import codec
from outlast.domain.task import Checkpoint
from outlast.store.records import Claimed, Statement
from outlast.tasks.context import Context
from outlast.tasks.settle import error_text
from outlast.worker.isolation.messages import Answer, Call, Trouble, Verb

_LOOK_SECONDS = 0.2
_MAX_ARGUMENTS_BYTES = 4 * codec.MAX_PAYLOAD_BYTES

_checkpoint: msgspec.json.Decoder[Checkpoint | None] = msgspec.json.Decoder(Checkpoint | None)

Ask = Callable[[Verb, str], Answer]


class IsolatedContext(Context):
    """A context whose verbs are done by the worker, with the answers told over the wire.

    `cancelled` never becomes true here: whoever runs in a process of its own is killed instead.
    """

    __slots__ = ("_ask_worker",)

    def __init__(self, ask: Ask, claimed: Claimed) -> None:
        self._ask_worker = ask
        self.claimed = claimed
        self.has_completed = self.is_completing = False
        self.cancelled = False
        self.reason = None
        self.progressed = None

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: finish, or record progress, soon."""
        return bool(codec.decode(self._ask("stopping")))

    @stopping.setter
    def stopping(self, value: bool) -> None:
        raise AttributeError("only the worker says that it stops")

    def checkpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """Append a record of progress that survives a crash."""
        made = _checkpoint.decode(self._ask("checkpoint", type, data, metadata))
        assert made is not None
        return made

    async def acheckpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """The same; the loop of a handler's own process has nobody else to serve."""
        return self.checkpoint(type, data, metadata)

    def complete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """Finish the task here and now; statements on your own tables commit together with it."""
        statements = [
            [sql, values if isinstance(values, dict) else [*values]] for sql, values in also
        ]
        return bool(codec.decode(self._ask("complete", result, statements)))

    async def acomplete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """The same."""
        return self.complete(result, also)

    def latest_checkpoint(self, type: str | None = None) -> Checkpoint | None:
        """The newest checkpoint of this task, perhaps of an earlier attempt."""
        return _checkpoint.decode(self._ask("latest_checkpoint", type))

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the work is; the worker's next beat carries it."""
        self._ask("progress", done, total, note)

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until the worker stops; True when that happened."""
        ends_at = time.monotonic() + seconds
        while not self.stopping:
            left_seconds = ends_at - time.monotonic()
            if left_seconds <= 0:
                return False
            time.sleep(min(left_seconds, _LOOK_SECONDS))
        return True

    def _ask(self, verb: Verb, *arguments: Any) -> str:
        """Have the worker do something; its errors are raised here as what they were there."""
        text = codec.encode(arguments, f"what {verb} was given", _MAX_ARGUMENTS_BYTES)
        answer = self._ask_worker(verb, text)
        if answer.trouble is not None:
            raise error_of(answer.trouble)
        return answer.value


def answer_to(call: Call, ctx: Context) -> Answer:
    """Do, in the worker, what a handler asks of its context."""
    try:
        value = _done(call, ctx)
        return Answer(call.number, msgspec.json.encode(value).decode())
    except Exception as error:
        return Answer(call.number, "null", trouble_of(error))


def _done(call: Call, ctx: Context) -> Any:
    if call.verb == "stopping":
        return ctx.stopping
    verbs: dict[str, Callable[..., Any]] = {
        "checkpoint": ctx.checkpoint,
        "complete": lambda result, also: ctx.complete(result, [tuple(one) for one in also]),
        "latest_checkpoint": ctx.latest_checkpoint,
        "progress": ctx.progress,
    }
    return verbs[call.verb](*codec.decode(call.arguments))


def trouble_of(error: Exception) -> Trouble:
    """An error as it travels."""
    try:
        facts = codec.encode(vars(error), "an error")
    except errors.InvalidInput:
        facts = "{}"
    name = type(error).__name__
    return Trouble(name, error_text(str(error) or name), facts)


def error_of(trouble: Trouble) -> Exception:
    """The error again: of the same class, if that is one of ours or of Python's."""
    kind = getattr(errors, trouble.name, None) or getattr(builtins, trouble.name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return errors.OutlastError(f"{trouble.name}: {trouble.message}")
    # Its own __init__ would make another message of this one.
    error = kind.__new__(kind, trouble.message)
    for name, value in codec.decode(trouble.facts).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
