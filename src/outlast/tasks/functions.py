"""Functions registered as tasks: what a worker must know to run them, and what they may ask for."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, get_args

from outlast.domain.budgets import MOST_RECOVERIES, MOST_RETRIES, Backoff, checked_budget
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.escaping import shown
from outlast.domain.names import checked_name, checked_whole
from outlast.domain.record import record
from outlast.domain.size import Size, size_bytes
from outlast.errors import InvalidInput
from outlast.store.session import Session
from outlast.tasks.enqueue import DEFAULT_QUEUE, MAX_PRIORITY, Options
from outlast.tasks.tracing import Tracing

P = ParamSpec("P")
R = TypeVar("R")

Isolation = Literal["thread", "process"]


# What other queues call the verb that stores a task.
_ELSEWHERE = {"delay", "apply_async", "send", "send_with_options", "defer", "submit", "schedule"}


class TaskOptions(TypedDict, total=False):
    """What `@app.task(…)` may be told about a function."""

    name: str | None
    queue: str
    priority: int
    max_retries: int | None
    max_recoveries: int | None
    backoff: Duration | None
    backoff_cap: Duration | None
    lease: Duration | None
    timeout: Duration | None
    isolation: Isolation
    memory_limit: Size | None


@record(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """How the tasks of a function are queued and run; None leaves it to the settings."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    max_retries: int | None = None
    max_recoveries: int | None = None
    backoff_seconds: float | None = None
    backoff_cap_seconds: float | None = None
    lease_seconds: float | None = None
    timeout_seconds: float | None = None
    isolation: Isolation = "thread"
    memory_limit_bytes: int | None = None


class TaskFunction(Generic[P, R]):
    """A function that tasks of its kind are run by; called, it is the plain function it was."""

    __name__: str

    def __init__(self, fn: Callable[P, R], kind: str, options: FunctionOptions) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.kind = kind
        self.options = options
        self.is_async = inspect.iscoroutinefunction(fn)
        # It needs msgspec, which programs without task functions can do without until they enqueue.
        from outlast.tasks.arguments import Arguments, wants_context

        self.wants_context = wants_context(fn)
        self.family: Functions | None = None
        """The functions it is registered with."""
        self._arguments = Arguments(fn, _label(fn, kind))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the plain function; one that takes a context is passed it by its caller."""
        return self.fn(*args, **kwargs)

    # A type checker knows the attributes by itself.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """For who is used to another queue: what is called so there is `.enqueue` here."""
            hint = "; to store a task it is .enqueue(…)" if name in _ELSEWHERE else ""
            raise AttributeError(f"task function {self.__dict__.get('kind')} has no {name}{hint}")

    def __repr__(self) -> str:
        """Names the kind and where the function stands."""
        return f"<task function {self.kind} ({'.'.join(self.module_ref)})>"

    def __reduce__(self) -> str:
        """Pickled as a plain function is: by the name it has in its module."""
        return self.fn.__qualname__

    @property
    def module_ref(self) -> tuple[str, str]:
        """The module and the name in it by which another process finds this function."""
        return self.fn.__module__, self.fn.__qualname__

    def payload_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The payload of a call: its arguments by name, checked and ready for JSON."""
        return self._arguments.payload_of(args, kwargs)

    def payload_of_one(self, call: Any) -> dict[str, Any]:
        """The payload of one call of many: a tuple of arguments, a dict of them, or the first."""
        return self._arguments.payload_of_one(call)

    def checked(self, payload: Any) -> dict[str, Any]:
        """A payload given by hand, if the function can be run with it."""
        return self._arguments.checked(payload)

    def arguments_from(self, payload: Any) -> dict[str, Any]:
        """The arguments in a stored payload, as what their annotations say; InvalidInput else."""
        return self._arguments.from_payload(payload)

    def arguments_in(self, text: str | None) -> dict[str, Any]:
        """The same from the JSON text in the store, without decoding it twice."""
        return self._arguments.from_text(text)

    def filled(self, options: Options) -> Options:
        """What an enqueue said, with this function's word where it said nothing."""
        own = self.options
        return options._replace(
            queue=own.queue if options.queue is None else options.queue,
            priority=own.priority if options.priority is None else options.priority,
            max_retries=own.max_retries if options.max_retries is None else options.max_retries,
            max_recoveries=own.max_recoveries
            if options.max_recoveries is None
            else options.max_recoveries,
        )

    def backoff(self, default: Backoff) -> Backoff:
        """The waits between retries: this function's own where it has any."""
        first_ms, cap_ms = default
        if self.options.backoff_seconds is not None:
            first_ms = round(self.options.backoff_seconds * 1000)
            cap_ms = max(cap_ms, first_ms)
        if self.options.backoff_cap_seconds is not None:
            cap_ms = round(self.options.backoff_cap_seconds * 1000)
        return Backoff(first_ms, cap_ms)


AnyFunction = TaskFunction[Any, Any]


class Functions(dict[str, AnyFunction]):
    """The functions of one app by kind; `serve` opens the store that their tasks lie in."""

    def __init__(self, serve: Callable[[], Session]) -> None:
        super().__init__()
        self.serve = serve
        self.when_stored: Callable[[], None] | None = None
        """Called after tasks of registered kinds were stored, if it is set: to run them at once."""
        self.tracing: Tracing | None = None
        """Who is told of their attempts, if anybody is."""

    def register(self, function: AnyFunction) -> None:
        """Add a function; another of the same kind is replaced only by its own newer self."""
        known = self.get(function.kind)
        if known is not None and known.module_ref != function.module_ref:
            raise InvalidInput(
                f"{'.'.join(known.module_ref)} and {'.'.join(function.module_ref)} would both run"
                f" tasks of kind {function.kind!r}; give one of them a name: @app.task(name=…)"
            )
        self[function.kind] = function
        function.family = self


def kind_of(fn: Callable[..., Any], name: str | None, isolation: str) -> str:
    """The kind a function will be registered under; refuses what cannot be run as a task."""
    shown = getattr(fn, "__qualname__", None) or repr(fn)
    if not inspect.isfunction(fn):
        raise InvalidInput(f"@app.task takes a function, not {shown}; wrap it in one")
    if fn.__name__ == "<lambda>":
        raise InvalidInput("@app.task takes no lambda; give it a name with def")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidInput(f"{shown} yields, so a call would not run it; return a list instead")
    scope = fn.__qualname__.rpartition(".")[0]
    if scope and not scope.endswith("<locals>"):
        raise InvalidInput(f"{shown} stands in a class; move it to the top level of its module")
    if scope and isolation == "process":
        raise InvalidInput(
            f"{shown} stands inside another function, where a process of its own cannot find it;"
            " move it to the top level of its module"
        )
    return checked_name(fn.__name__ if name is None else name, "name")


def options_of(given: TaskOptions) -> FunctionOptions:
    """What the decorator was told, checked, with units."""
    _refuse_unknown(given)
    isolation, memory_limit = given.get("isolation", "thread"), given.get("memory_limit")
    if isolation not in get_args(Isolation):
        raise InvalidInput(f"isolation must be one of thread, process, not {shown(isolation)}")
    if memory_limit is not None and isolation != "process":
        raise InvalidInput('memory_limit needs a process to limit: add isolation="process"')
    priority, retries = given.get("priority", 0), given.get("max_retries")
    options = FunctionOptions(
        queue=checked_name(given.get("queue", DEFAULT_QUEUE), "queue"),
        priority=checked_whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY),
        max_retries=checked_budget(retries, "max_retries", MOST_RETRIES),
        max_recoveries=checked_budget(
            given.get("max_recoveries"), "max_recoveries", MOST_RECOVERIES
        ),
        backoff_seconds=_seconds(given.get("backoff"), "backoff", least_ms=0),
        backoff_cap_seconds=_seconds(given.get("backoff_cap"), "backoff_cap", least_ms=0),
        lease_seconds=_seconds(given.get("lease"), "lease"),
        timeout_seconds=_seconds(given.get("timeout"), "timeout"),
        isolation=isolation,
        memory_limit_bytes=_bytes(memory_limit, "memory_limit"),
    )
    first, cap = options.backoff_seconds, options.backoff_cap_seconds
    if first is not None and cap is not None and cap < first:
        raise InvalidInput("backoff_cap must be at least as long as backoff")
    return options


def _refuse_unknown(given: TaskOptions) -> None:
    known = list(TaskOptions.__annotations__)
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
            raise InvalidInput(f"@app.task has no option {shown(name)}; {hint}")


def _bytes(value: Size | None, name: str) -> int | None:
    return None if value is None else size_bytes(value, name)


def _seconds(value: Duration | None, name: str, least_ms: int = 1) -> float | None:
    if value is None:
        return None
    ms = duration_ms(value, name)
    if ms < least_ms:
        raise InvalidInput(f"{name} must be longer than nothing")
    return ms / 1000


def _label(fn: Callable[..., Any], kind: str) -> str:
    name: str = fn.__name__
    return f"{name}()" if name == kind else f"{name}() (kind {kind})"
