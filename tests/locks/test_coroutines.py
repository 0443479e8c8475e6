"""Locks for coroutines: the same, awaited; a cancelled one holds nothing."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from outlast import (
    AsyncNamedLock,
    AsyncOutlast,
    LockHeld,
    LockLost,
    NamedLock,
    Outlast,
    Settings,
)
from outlast.testing import ManualClock

LONG_SECONDS = 100.0

Play = Callable[[AsyncOutlast], Coroutine[Any, Any, None]]


@pytest.fixture
def play(database: Path, clock: ManualClock) -> Callable[[Play], None]:
    def run(act: Play) -> None:
        async def whole() -> None:
            settings = Settings(heartbeat_interval_seconds=0.05)
            async with AsyncOutlast(database, clock=clock, settings=settings) as app:
                await act(app)

        asyncio.run(asyncio.wait_for(whole(), LONG_SECONDS))

    return run


def test_a_block_holds_renews_and_gives_back(
    play: Callable[[Play], None], clock: ManualClock
) -> None:
    async def act(app: AsyncOutlast) -> None:
        async with app.lock("x", ttl=100) as grant:
            assert grant.token == 1
            with pytest.raises(LockHeld):
                async with app.lock("x"):
                    pytest.fail("two are inside")
            clock.advance(90)
            while (found := await app.current_lock("x")) is not None and found.left_ms < 100_000:
                await asyncio.sleep(0.005)
            await grant.check()
        assert await app.current_lock("x") is None

    play(act)


def test_a_loss_is_noted_on_the_blocks_own_error_and_who_waited_is_not_told_to_wait(
    play: Callable[[Play], None],
) -> None:
    async def fails_late(app: AsyncOutlast) -> None:
        async with app.lock("x", ttl=10):
            await app.release_lock("x", by="ada")
            raise ZeroDivisionError

    async def act(app: AsyncOutlast) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            await fails_late(app)
        assert "lock 'x' is not held any more" in caught.value.__notes__[0]
        await app.lock("x", holder="ada").acquire()
        for wait, advice in ((None, "give wait="), (0.05, "wait longer")):
            with pytest.raises(LockHeld, match=advice):
                async with app.lock("x", wait=wait):
                    pytest.fail("two are inside")
            with pytest.raises(LockHeld, match=advice):
                await app.next_with_lock("bob", lock="x", wait=wait)

    play(act)


def test_by_hand(play: Callable[[Play], None], clock: ManualClock) -> None:
    async def act(app: AsyncOutlast) -> None:
        lock, other = app.lock(ttl=10), app.lock()
        assert await lock.acquire()
        assert not await other.acquire()
        assert await lock.acquire()
        assert await lock.extend(20)
        clock.advance(20)
        assert await app.is_lock_stale()
        assert [one.name for one in await app.locks()] == ["default"]
        assert not await lock.release()
        assert await other.acquire()
        assert await app.release_lock("default", by="ada")
        with pytest.raises(LockLost):
            await other.check()

    play(act)


def test_who_lost_its_lock_learns_of_it_at_the_end_of_the_block(
    play: Callable[[Play], None], clock: ManualClock
) -> None:
    async def loses(app: AsyncOutlast) -> None:
        async with app.lock("x"):
            await app.release_lock("x", by="ada")

    async def act(app: AsyncOutlast) -> None:
        with pytest.raises(LockLost):
            await loses(app)

    play(act)


@pytest.mark.proves("LCK-08")
@pytest.mark.parametrize("shares_object", [True, False])
def test_coroutines_exclude_each_other_and_waiting_leaves_the_loop_free(
    play: Callable[[Play], None], shares_object: bool
) -> None:
    """More of them wait than there are threads to pool through."""

    async def act(app: AsyncOutlast) -> None:
        inside: list[int] = []
        tokens: list[int | None] = []
        shared = app.lock(wait=LONG_SECONDS)

        async def turn() -> None:
            async with shared if shares_object else app.lock(wait=LONG_SECONDS) as grant:
                assert not inside
                inside.append(1)
                await app.enqueue("work")
                tokens.append(grant.token)
                inside.pop()

        await asyncio.gather(*(turn() for _ in range(24)))
        assert len(tokens) == 24
        assert tokens == sorted(set(tokens), key=lambda token: token or 0)

    play(act)


def test_one_that_is_cancelled_while_it_asks_or_waits_holds_nothing(
    play: Callable[[Play], None],
) -> None:
    async def act(app: AsyncOutlast) -> None:
        for turns in range(40):
            lock = app.lock("x", wait=LONG_SECONDS)
            asking = asyncio.create_task(lock.acquire())
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            asking.cancel()
            (outcome,) = await asyncio.gather(asking, return_exceptions=True)
            if outcome is True:
                assert await lock.release()
            assert await app.current_lock("x") is None
        assert await app.lock("x").acquire()
        waiting = asyncio.create_task(app.lock("x", wait=LONG_SECONDS).acquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await app.release_lock("x", by="ada")
        assert await app.current_lock("x") is None

    play(act)


@pytest.mark.proves("LCK-12")
def test_a_task_with_its_lock_is_awaited_and_waited_for(
    play: Callable[[Play], None], database: Path
) -> None:
    async def act(app: AsyncOutlast) -> None:
        assert await app.next_with_lock("agent") is None
        await app.enqueue("work", id="a")
        await app.enqueue("work", id="b")
        first = await app.next_with_lock("agent")
        assert first is not None
        with pytest.raises(LockHeld):
            await app.next_with_lock("other")
        waiting = asyncio.create_task(app.next_with_lock("other", wait=LONG_SECONDS))
        await asyncio.sleep(0.05)
        await first.complete()
        second = await waiting
        assert second is not None
        assert (first.task_id, second.task_id) == ("a", "b")

    play(act)


VERBS = ["acquire", "check", "extend", "release"]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_of_a_lock_is_a_coroutine_function_with_the_same_words(name: str) -> None:
    ours, theirs = getattr(AsyncNamedLock, name), getattr(NamedLock, name)
    assert inspect.iscoroutinefunction(ours)
    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)


def test_making_a_lock_takes_the_same_words() -> None:
    ours, theirs = AsyncOutlast.lock, Outlast.lock
    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)
