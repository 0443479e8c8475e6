"""Cancelled, a call has happened wholly or not at all, and is over when its caller hears of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from outlast import AsyncOutlast, LeaseLost, Outlast, TaskNotFound
from tests.store.hand import Hand, engine_of, store_of
from tests.support.foreign import assert_sound, foreign_statuses
from tests.support.grouping import is_committing

SOON_SECONDS = 60.0


@contextmanager
def nobody_can_write(aio: AsyncOutlast) -> Iterator[Callable[[], None]]:
    """Another connection has the write lock, until it is told to let go."""
    hand = Hand(aio.path)
    hand.run("BEGIN IMMEDIATE")

    def let_go() -> None:
        hand.run("ROLLBACK")

    yield let_go
    hand.close()


async def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def under_way(aio: AsyncOutlast, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A call whose transaction has been begun, or rather is about to be."""
    group = store_of(aio._app).tasks._access.queue
    task = asyncio.create_task(call)
    await until(lambda: is_committing(group))
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON_SECONDS)


async def exists(aio: AsyncOutlast, task_id: str) -> bool:
    with suppress(TaskNotFound):
        await aio.get(task_id)
        return True
    return False


def test_what_had_not_begun_never_happens(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.open()
        with nobody_can_write(aio) as let_go:
            first = await under_way(aio, aio.enqueue("work", id="first"))
            second = asyncio.create_task(aio.enqueue("work", id="second"))
            group = store_of(aio._app).tasks._access.queue
            await until(lambda: len(group.shared) == 1)
            second.cancel()
            await cancelled(second)
            let_go()
            await first
        await aio.enqueue("work", id="third")

    asyncio.run(scene())
    assert foreign_statuses(aio.path) == {"first": "pending", "third": "pending"}


Verb = Callable[[AsyncOutlast], Awaitable[Any]]

WRITES: dict[str, Verb] = {
    "enqueue": lambda aio: aio.enqueue("work", id="new"),
    "enqueue_many": lambda aio: aio.enqueue_many("work", [1, 2], id=["new", "newer"]),
    "cancel": lambda aio: aio.cancel("t1"),
    "park": lambda aio: aio.park("t1"),
    "take": lambda aio: aio.take(1),
    "pause": lambda aio: aio.pause("default"),
    "retry": lambda aio: aio.retry("done"),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_had_begun_is_waited_for(aio: AsyncOutlast, name: str) -> None:
    """However often it is cancelled; when the caller hears of it, the change stands."""

    async def scene() -> None:
        await aio.enqueue_many("work", range(2), id=["done", "t1"])
        (lease,) = await aio.claim("w")
        await lease.complete()
        before = await _seen(aio)
        with nobody_can_write(aio) as let_go:
            task = await under_way(aio, _called(WRITES[name], aio))
            for _ in range(3):
                task.cancel()
                await asyncio.wait([task], timeout=0.01)
                assert not task.done()
            let_go()
            await cancelled(task)
        assert await _seen(aio) != before

    asyncio.run(scene())


async def _called(verb: Verb, aio: AsyncOutlast) -> Any:
    return await verb(aio)


async def _seen(aio: AsyncOutlast) -> Any:
    return await aio.tasks(), await aio.why("t1") if await exists(aio, "t1") else ""


def test_a_lease_is_settled_once_however_its_caller_was_cancelled(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        (lease,) = await aio.claim("w")
        with nobody_can_write(aio) as let_go:
            task = await under_way(aio, lease.complete("done"))
            task.cancel()
            await asyncio.wait([task], timeout=0.01)
            let_go()
            await cancelled(task)
        assert await lease.complete("again") is False
        assert (await aio.get("t1")).result == "done"
        with pytest.raises(LeaseLost):
            await lease.renew()

    asyncio.run(scene())


@pytest.mark.parametrize("verb", ["claim", "prefetch"])
def test_a_cancelled_claim_gives_its_leases_back_uncharged(aio: AsyncOutlast, verb: str) -> None:
    async def scene() -> None:
        await aio.enqueue_many("work", range(3), id=["a", "b", "c"])
        with nobody_can_write(aio) as let_go:
            task = await under_way(aio, getattr(aio, verb)("w", limit=2))
            task.cancel()
            await asyncio.wait([task], timeout=0.01)
            let_go()
            await cancelled(task)
        for task_id in ("a", "b"):
            found = await aio.get(task_id)
            assert (found.status, found.attempt, found.recovery_count) == ("pending", 0, 0)
            moves = await aio.history(task_id)
            assert [move.reason for move in moves] == ["claimed", "released"]
        assert [lease.attempt for lease in await aio.claim("w", limit=3)] == [1, 1, 1]

    asyncio.run(scene())


def test_a_claim_cancelled_while_it_gives_back_still_gives_back(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        with nobody_can_write(aio) as let_go:
            task = await under_way(aio, aio.claim("w"))
            task.cancel()
            await asyncio.wait([task], timeout=0.01)
            let_go()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            await cancelled(task)
        assert (await aio.get("t1")).status == "pending"

    asyncio.run(scene())


def test_a_claim_that_waits_for_work_can_be_cancelled_and_leaves_no_bound_socket(
    aio: AsyncOutlast,
) -> None:
    async def scene() -> None:
        await aio.open()
        wakeups = engine_of(aio._app)._wakeups

        def ears() -> int:
            return sum(one._bound is not None for one in wakeups._listeners)

        task = asyncio.create_task(aio.claim("w", wait="1h"))
        await until(ears)
        task.cancel()
        await cancelled(task)
        assert not ears()
        await aio.enqueue("work", id="t1")
        assert (await aio.get("t1")).status == "pending"

    asyncio.run(scene())


def test_a_claim_that_runs_out_of_the_callers_time_keeps_nothing(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        with nobody_can_write(aio) as let_go:
            asyncio.get_running_loop().call_later(0.05, let_go)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await aio.claim("w")
        assert (await aio.get("t1")).attempt == 0

    asyncio.run(scene())


def test_cancelled_coroutines_and_busy_threads_do_not_disturb_each_other(
    aio: AsyncOutlast, app: Outlast
) -> None:
    async def scene() -> None:
        adding = asyncio.create_task(
            asyncio.to_thread(lambda: [app.enqueue("work", id=f"thread {n}") for n in range(100)])
        )
        told: dict[str, bool] = {}
        n = 0
        while not adding.done():
            task = asyncio.create_task(aio.enqueue("work", id=f"loop {n}"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            told[f"loop {n}"] = await exists(aio, f"loop {n}")
            n += 1
        assert len(await adding) == 100
        stored = foreign_statuses(aio.path)
        assert {task_id for task_id, is_there in told.items() if is_there} == {
            task_id for task_id in stored if task_id.startswith("loop")
        }

    asyncio.run(scene())
    assert_sound(aio.path)
