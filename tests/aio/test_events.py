"""Events for coroutines: told on their loop, in order, and followed with `async for`."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from outlast import AsyncOutlast, AsyncSubscription, Event, Outlast

DEADLINE_SECONDS = 60


def test_a_coroutine_is_told_on_its_loop_one_event_at_a_time(aio: AsyncOutlast) -> None:
    told: list[str | None] = []
    threads: set[threading.Thread] = set()

    async def tell(event: Event) -> None:
        threads.add(threading.current_thread())
        told.append(event.task_id)
        await asyncio.sleep(0)
        told.append(event.task_id)

    async def live() -> None:
        async with await aio.subscribe(tell, "audit") as subscription:
            for task_id in "abc":
                await aio.enqueue("work", id=task_id)
            assert await subscription.catch_up(DEADLINE_SECONDS)
        assert subscription.is_over

    asyncio.run(live())
    assert told == ["a", "a", "b", "b", "c", "c"]
    assert threads == {threading.current_thread()}


def test_a_plain_function_will_do(aio: AsyncOutlast) -> None:
    told: list[Event] = []

    async def live() -> None:
        async with aio, await aio.subscribe(told.append) as subscription:
            await aio.enqueue("work", id="a")
            assert await subscription.catch_up(DEADLINE_SECONDS)

    asyncio.run(live())
    assert [event.task_id for event in told] == ["a"]


def test_a_name_is_the_same_for_threads_and_coroutines(
    make_aio: Callable[..., AsyncOutlast], database: Path
) -> None:
    told: list[Event] = []
    with Outlast(database) as app, app.subscribe(told.append, "audit") as subscription:
        app.enqueue("work", id="a")
        assert subscription.catch_up(DEADLINE_SECONDS)

    async def live() -> None:
        aio = make_aio()
        await aio.enqueue("work", id="b")
        async with await aio.subscribe(told.append, "audit", kinds="task.*") as later:
            assert await later.catch_up(DEADLINE_SECONDS)
        (found,) = await aio.subscribers()
        assert (found.name, found.behind) == ("audit", 0)
        assert await aio.unsubscribe("audit")

    asyncio.run(live())
    assert [event.task_id for event in told] == ["a", "b"]


def test_one_that_fails_is_told_again_and_may_close_itself(aio: AsyncOutlast) -> None:
    told: list[Event] = []

    async def tell(event: Event) -> None:
        told.append(event)
        if len(told) == 1:
            raise OSError("not now")
        await begun[0].close()

    async def live() -> None:
        begun.append(await aio.subscribe(tell, "audit"))
        await aio.enqueue_many("work", [1, 2, 3])
        await begun[0].catch_up(DEADLINE_SECONDS)
        await begun[0].close()

    begun: list[AsyncSubscription] = []
    asyncio.run(live())
    assert told[0] == told[1]
    assert len(told) == 2


def test_a_loop_that_ends_takes_its_subscriber_with_it_and_nothing_is_lost(
    aio: AsyncOutlast, database: Path
) -> None:
    """The function is cancelled in the middle of an event, which the next one is told again."""
    told: list[Event] = []

    async def never_returns(event: Event) -> None:
        entered.set()
        await asyncio.Event().wait()

    async def live() -> None:
        await aio.subscribe(never_returns, "audit")
        await aio.enqueue("work", id="a")
        await asyncio.to_thread(entered.wait, DEADLINE_SECONDS)

    entered = threading.Event()
    asyncio.run(live())
    asyncio.run(aio.close())
    with Outlast(database) as app, app.subscribe(told.append, "audit") as subscription:
        assert subscription.catch_up(DEADLINE_SECONDS)
    assert "a" in [event.task_id for event in told]


def test_the_stream_is_followed_with_async_for(aio: AsyncOutlast) -> None:
    async def live() -> list[str | None]:
        await aio.enqueue("work", id="a")
        found: list[str | None] = []
        async with asyncio.timeout(DEADLINE_SECONDS):
            async for event in aio.follow("0.0", kinds="task.*"):
                found.append(event.task_id)
                if len(found) == 1:
                    await aio.enqueue("work", id="b")
                else:
                    break
        return found

    assert asyncio.run(live()) == ["a", "b"]


def test_pages_are_read_as_threads_read_them(aio: AsyncOutlast, database: Path) -> None:
    async def live() -> tuple[list[Event], list[Event]]:
        await aio.enqueue_many("work", range(5))
        return await aio.events(), await aio.newest_events(2)

    events, newest = asyncio.run(live())
    assert newest == events[-2:]
    with Outlast(database) as app:
        assert app.events(limit=len(events)) == events
