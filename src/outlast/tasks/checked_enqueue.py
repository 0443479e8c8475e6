"""The way in for registered kinds: their arguments are checked, then it is an enqueue like any."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from outlast.domain.task import Task, Waits
from outlast.errors import InvalidInput
from outlast.tasks import enqueue
from outlast.tasks.functions import AnyFunction, Functions

ThreadPool = Callable[..., Awaitable[Any]]


class Given(NamedTuple):
    """What a caller said beside the arguments; many calls take lists of ids and keys."""

    options: enqueue.Options = enqueue.Options()
    id: Any = None
    key: Any = None


class Opener(enqueue.Opener, Protocol):
    """Also knows whether the store is open, so that nobody would have to wait for it."""

    @property
    def is_serving(self) -> bool:
        """Whether the store is open to serve."""
        ...


class CheckedEnqueue:
    """Stores calls of the functions of one app; `pool` runs what blocks off a coroutine's loop."""

    def __init__(
        self, opener: Opener, functions: Functions, waits: Waits, pool: ThreadPool | None = None
    ) -> None:
        self._opener = opener
        self._functions = functions
        self._waits = waits
        self._pool = pool or _to_thread

    def put(self, function: AnyFunction, payload: dict[str, Any], given: Given) -> Task:
        """Store one call, whose payload was checked."""
        task = enqueue.enqueue(
            self._opener, function.kind, payload, function.filled(given.options),
            task_id=given.id, key=given.key,
        )  # fmt: skip
        if self._functions.when_stored is not None:
            self._functions.when_stored()
            task = enqueue.existing(self._opener.serve(), task.id)
        return task.waiting_by(self._waits)

    async def put_soon(self, function: AnyFunction, payload: dict[str, Any], given: Given) -> Task:
        """The same in a coroutine, which awaits the commit."""
        new = function.kind, payload, function.filled(given.options)
        if not self._opener.is_serving:
            enqueue.check(self._opener, *new, task_id=given.id, key=given.key)
            await self._pool(self._opener.serve)
        found = await enqueue.enqueue_soon(self._opener, *new, task_id=given.id, key=given.key)
        if self._functions.when_stored is not None:
            await self._pool(self._functions.when_stored)
            found = enqueue.Unread(found.id, found) if isinstance(found, Task) else found
        if not isinstance(found, Task):
            found = await self._pool(enqueue.read, self._opener.serve(), found)
        return found.waiting_by(self._waits)

    def put_many(
        self,
        function: AnyFunction,
        payloads: Iterable[dict[str, Any]],
        given: Given,
        chunked: bool,
    ) -> list[str]:
        """Store many calls in one transaction, or in several if asked for."""
        ids = enqueue.enqueue_many(
            self._opener, function.kind, payloads, function.filled(given.options),
            task_ids=given.id, keys=given.key, chunked=chunked,
        )  # fmt: skip
        if ids and self._functions.when_stored is not None:
            self._functions.when_stored()
        return ids

    async def put_many_soon(
        self,
        function: AnyFunction,
        payloads: Iterable[dict[str, Any]],
        given: Given,
        chunked: bool,
    ) -> list[str]:
        """The same in a coroutine."""
        ids: list[str] = await self._pool(self.put_many, function, payloads, given, chunked)
        return ids


def payloads_of(function: AnyFunction, calls: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The payloads of many calls: tuples of arguments, dicts of them, or single first ones."""
    return _numbered("call", calls, function.payload_of_one)


def checked_payloads(function: AnyFunction, payloads: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Payloads given by hand, each checked when its turn comes."""
    return _numbered("payload", payloads, function.checked)


def _numbered(
    word: str, many: Iterable[Any], payload_of: Callable[[Any], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    if isinstance(many, str | bytes | dict) or not isinstance(many, Iterable):
        raise InvalidInput(f"{word}s must be a list of {word}s, not a {type(many).__name__}")

    def payloads() -> Iterator[dict[str, Any]]:
        for n, one in enumerate(many):
            try:
                payload = payload_of(one)
            except InvalidInput as error:
                raise type(error)(f"{word} {n}: {error}") from error
            yield payload

    return payloads()


async def _to_thread(call: Callable[..., Any], *args: Any) -> Any:
    # As long to import as all of Outlast, so only who is in a coroutine already pays for it.
    import asyncio

    return await asyncio.to_thread(call, *args)
