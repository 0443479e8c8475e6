"""Calls with statements of the caller's own commit alone; coroutines may mix them with others."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from outlast import AsyncOutlast
from tests.aio.test_cancelling import cancelled, nobody_can_write, under_way, until
from tests.store.hand import Hand, store_of
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

SOON_SECONDS = 60.0
ENTRY = "INSERT INTO ledger VALUES (?)"


@pytest.fixture
def ledger(aio: AsyncOutlast) -> Iterator[AsyncOutlast]:
    """A store with a table of the caller's own."""
    asyncio.run(aio.open())
    with closing(Hand(aio.path)) as hand:
        hand.run("CREATE TABLE ledger (entry TEXT)")
    yield aio
    assert_sound(aio.path)


async def _enters(aio: AsyncOutlast, name: str) -> None:
    await aio.enqueue("work", id=name, also=[(ENTRY, (name,))])


def _entries(aio: AsyncOutlast) -> list[str]:
    return sorted(entry for (entry,) in foreign_rows(aio.path, "SELECT entry FROM ledger"))


@pytest.mark.parametrize("alone_come_first", [True, False])
def test_lone_operations_and_groups_of_coroutines_take_turns(
    ledger: AsyncOutlast, alone_come_first: bool
) -> None:
    """More lone operations than the store has threads, and a group between any two of them."""

    async def scene() -> None:
        for n in range(5):
            alone = [_enters(ledger, f"alone {n} {m}") for m in range(6)]
            shared = [ledger.enqueue("work", id=f"shared {n} {m}") for m in range(6)]
            calls = [*alone, *shared] if alone_come_first else [*shared, *alone]
            await asyncio.wait_for(asyncio.gather(*calls), SOON_SECONDS)

    asyncio.run(scene())
    assert _entries(ledger) == sorted(f"alone {n} {m}" for n in range(5) for m in range(6))
    assert len(foreign_statuses(ledger.path)) == 60


def test_a_lone_operation_cancelled_before_its_turn_never_happens(ledger: AsyncOutlast) -> None:
    async def scene() -> None:
        group = store_of(ledger._app).tasks._access.queue
        with nobody_can_write(ledger) as let_go:
            first = await under_way(ledger, ledger.enqueue("work", id="first"))
            second = asyncio.create_task(_enters(ledger, "second"))
            await until(lambda: len(group.alone) == 1)
            second.cancel()
            await cancelled(second)
            let_go()
            await first
        await ledger.enqueue("work", id="third")

    asyncio.run(scene())
    assert sorted(foreign_statuses(ledger.path)) == ["first", "third"]
    assert _entries(ledger) == []


def test_a_lone_operation_cancelled_under_way_happens_once(ledger: AsyncOutlast) -> None:
    async def scene() -> None:
        with nobody_can_write(ledger) as let_go:
            task = await under_way(ledger, _enters(ledger, "t1"))
            for _ in range(3):
                task.cancel()
                await asyncio.wait([task], timeout=0.01)
            let_go()
            await cancelled(task)
        assert (await ledger.get("t1")).status == "pending"

    asyncio.run(scene())
    assert _entries(ledger) == ["t1"]


def test_task_and_entry_stand_or_fall_together_whenever_they_are_cancelled(
    ledger: AsyncOutlast,
) -> None:
    async def scene() -> None:
        for n in range(150):
            task = asyncio.create_task(_enters(ledger, f"t{n}"))
            await asyncio.sleep(n % 10 * 0.0003)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(scene())
    assert _entries(ledger) == sorted(foreign_statuses(ledger.path))
