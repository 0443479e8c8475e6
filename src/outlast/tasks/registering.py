"""`@app.task`: turns a function into one that can be enqueued, and tells the app about it."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from outlast.domain.duration import Duration
from outlast.domain.task import Task
from outlast.store.records import Statement
from outlast.tasks.checked_enqueue import CheckedEnqueue, Given, payloads_of
from outlast.tasks.context import Context
from outlast.tasks.enqueue import Options
from outlast.tasks.functions import (
    AnyFunction,
    FunctionOptions,
    Functions,
    TaskFunction,
    TaskOptions,
    kind_of,
    options_of,
)

P = ParamSpec("P")
E = ParamSpec("E")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_NOTHING = Given()


class WantsContext(Protocol[E, R_co]):
    """A function whose first parameter is called `ctx`; its tasks carry only the others."""

    def __call__(self, ctx: Context, *args: E.args, **kwargs: E.kwargs) -> R_co:
        """Run it."""
        ...


class Enqueuer(Generic[E]):
    """Enqueues calls of one function, with the options that `using` was given."""

    def __init__(
        self, function: AnyFunction, checked_enqueue: CheckedEnqueue, given: Given = _NOTHING
    ) -> None:
        self._function = function
        self._checked_enqueue = checked_enqueue
        self._given = given

    def enqueue(self, *args: E.args, **kwargs: E.kwargs) -> Task:
        """Store a call as a task; when this returns, it survives the process and the machine."""
        payload = self._function.payload_of(args, kwargs)
        return self._checked_enqueue.put(self._function, payload, self._given)

    async def aenqueue(self, *args: E.args, **kwargs: E.kwargs) -> Task:
        """The same from a coroutine, which does not hold up its loop meanwhile."""
        payload = self._function.payload_of(args, kwargs)
        return await self._checked_enqueue.put_soon(self._function, payload, self._given)

    def enqueue_many(self, calls: Iterable[Any], *, chunked: bool = False) -> list[str]:
        """Store many calls in one transaction and return their ids.

        Each is a tuple of arguments, a dict of arguments by name, or, if it is neither, the first
        argument.
        """
        payloads = payloads_of(self._function, calls)
        return self._checked_enqueue.put_many(self._function, payloads, self._given, chunked)


class BoundFunction(TaskFunction[P, R], Enqueuer[E], Generic[P, E, R]):
    """A registered function of an `Outlast`: called it runs, enqueued it becomes a task."""

    def __init__(
        self,
        fn: Callable[P, R],
        kind: str,
        options: FunctionOptions,
        checked_enqueue: CheckedEnqueue,
    ) -> None:
        TaskFunction.__init__(self, fn, kind, options)
        Enqueuer.__init__(self, self, checked_enqueue)

    def using(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        id: str | Sequence[str] | None = None,
        group: str | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        max_retries: int | None = None,
        max_recoveries: int | None = None,
        idempotency_key: str | Sequence[str] | None = None,
        also: Sequence[Statement] = (),
    ) -> Enqueuer[E]:
        """An enqueuer with these options, which so never collide with arguments."""
        options = Options(queue, priority, group, delay, run_at, max_retries, max_recoveries, also)
        return Enqueuer(self, self._checked_enqueue, Given(options, id, idempotency_key))


class Decorator(Protocol):
    """What `app.task(…)` returns."""

    @overload
    def __call__(
        self, fn: WantsContext[E, R], /
    ) -> BoundFunction[Concatenate[Context, E], E, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> BoundFunction[P, P, R]: ...


class Registering:
    """The part of an Outlast object that knows functions."""

    _functions: Functions
    _checked_enqueue: CheckedEnqueue

    @property
    def functions(self) -> Functions:
        """The functions registered here, by kind."""
        return self._functions

    @overload
    def task(self, fn: WantsContext[E, R], /) -> BoundFunction[Concatenate[Context, E], E, R]: ...
    @overload
    def task(self, fn: Callable[P, R], /) -> BoundFunction[P, P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, fn: Any = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Register a function: tasks of its kind are calls of it, and `.enqueue` stores one.

        Works bare, `@app.task`, or with options, `@app.task(max_retries=5, timeout="10m")`.
        """
        own = options_of(options)

        def register(fn: Callable[..., Any]) -> BoundFunction[..., ..., Any]:
            kind = kind_of(fn, options.get("name"), own.isolation)
            function: BoundFunction[..., ..., Any] = BoundFunction(
                fn, kind, own, self._checked_enqueue
            )
            self.functions.register(function)
            return function

        return register if fn is None else register(fn)
