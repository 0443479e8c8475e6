"""Events for coroutines: told on the loop, one after the other, or followed with `async for`."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from types import TracebackType
from typing import Any, Self

from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.event_delivery import OnError
from outlast.app.events import (
    READ_AT_ONCE,
    begin_subscription,
    checked_terms,
    reached,
    wanted_by,
)
from outlast.app.handle import StoreHandle
from outlast.app.subscription import Subscription
from outlast.domain.duration import Duration
from outlast.domain.events import Cursor, Event, cursor_of
from outlast.store.change_watch import POLL_SECONDS


class _OnLoop:
    """Calls a function, async or not, on the loop, for the thread that delivers."""

    def __init__(self, fn: Callable[[Event], object]) -> None:
        self._fn = fn
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[Any] | None = None
        """The one that is telling, which must not wait for itself."""

    def __call__(self, event: Event) -> None:
        telling = self._tell(event)
        try:
            asyncio.run_coroutine_threadsafe(telling, self._loop).result()
        except CancelledError:
            raise SystemExit("the loop of this subscriber was cancelled") from None
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            telling.close()
            raise SystemExit("the loop of this subscriber was closed") from None

    async def _tell(self, event: Event) -> None:
        self.task = asyncio.current_task()
        try:
            answer = self._fn(event)
            if inspect.isawaitable(answer):
                await answer
        finally:
            self.task = None


class AsyncSubscription:
    """Events are told on the loop that subscribed until this, or its AsyncOutlast, is closed."""

    def __init__(self, subscription: Subscription, on_loop: _OnLoop, pool: ThreadPool) -> None:
        self._subscription = subscription
        self._on_loop = on_loop
        self._pool = pool
        self.name = subscription.name

    def __repr__(self) -> str:
        """Names it, and says where it is."""
        return repr(self._subscription).replace("<", "<Async", 1)

    @property
    def cursor(self) -> Cursor:
        """The place up to which events have been told."""
        return self._subscription.cursor

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be told."""
        return self._subscription.is_over

    @property
    def error(self) -> BaseException | None:
        """What ended it, if that was an error."""
        return self._subscription.error

    async def catch_up(self, timeout: Duration | None = None) -> bool:
        """Wait until all that stands in the stream now is told, and stored under the name."""
        return await self._pool(self._subscription.catch_up, timeout)

    async def close(self, timeout: Duration | None = None) -> None:
        """Tell nothing more, and wait for a call that is under way, unless it is this one."""
        if self._on_loop.task is not None and self._on_loop.task is asyncio.current_task():
            timeout = 0
        await self._pool.to_its_end(self._subscription.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncEventVerbs:
    """The event stream for coroutines."""

    _handle: StoreHandle
    _pool: ThreadPool

    async def subscribe(
        self,
        fn: Callable[[Event], object],
        name: str | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        after: Cursor | str | None = None,
        on_error: OnError = "retry",
        tries: int = 5,
    ) -> AsyncSubscription:
        """Have a function called with each event, in order, beside all else that goes on.

        Without a name it is told what happens from now on, as long as this process lives. A name
        keeps a durable cursor: each event is told at least once, across restarts and crashes, by
        one process at a time. A function that raises is told the same event again, for ever;
        with `on_error` "skip" or "stop" only so many `tries`.
        """
        terms = checked_terms(fn, name, kinds, on_error, tries)
        place = None if after is None else cursor_of(after)
        on_loop = _OnLoop(fn)
        begun = await self._pool.undone_if_cancelled(
            lambda: begin_subscription(self._handle, on_loop, terms, place), Subscription.close
        )
        return AsyncSubscription(begun, on_loop, self._pool)

    async def follow(
        self,
        after: Cursor | str | None = None,
        *,
        kinds: str | Sequence[str] | None = None,
        task: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """What happens behind a place, or from now on, as it happens; it never ends by itself."""
        wanted = wanted_by(kinds, task)
        place = None if after is None else cursor_of(after)
        reads = await self._pool(self._handle.look)
        at = await (
            self._pool(reads.events.end) if place is None else self._pool(reached, reads, place)
        )
        with closing(reads.news_listener()) as listener:
            while True:
                seen = await self._pool(reads.changes)
                page = await self._pool(reads.events.page, at, READ_AT_ONCE, self._handle.now())
                for event in filter(wanted.takes, page.events):
                    yield event
                at = page.end
                while page.is_last and await self._pool(reads.changes) == seen:
                    if await listener.wait_async(POLL_SECONDS):
                        break
