"""Hundreds of calls cancelled at any moment; then a foreign reader counts what became of them."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from outlast import AsyncLease, AsyncOutlast, TaskNotFound
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

T = TypeVar("T")

CALLERS = 6
CALLS_EACH = 50

CLAIMED = "SELECT id, attempt, status, token FROM tasks"
MOVES = "SELECT t.id, x.reason FROM transitions x JOIN tasks t ON t.seq = x.task_seq"
CHECKPOINTS = "SELECT json_extract(snapshot_data, '$') FROM task_checkpoints"


class Hammer:
    """One caller's bad luck: its calls are cancelled before, in and after their commits."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self._typical_seconds = 0.001

    async def perhaps(self, call: Coroutine[Any, Any, T]) -> T | None:
        """The answer, or None when it was cancelled before there was one."""
        task = asyncio.create_task(call)
        luck = self.chance.random()
        if luck < 0.2:
            began = time.monotonic()
            await task
            self._typical_seconds = time.monotonic() - began
        elif luck < 0.4:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(self.chance.uniform(0, 2 * self._typical_seconds))
        task.cancel()
        with suppress(asyncio.CancelledError):
            return await task
        return None


Caller = Callable[[int, Hammer], Awaitable[None]]


async def many(aio: AsyncOutlast, caller: Caller, seed: int) -> None:
    await aio.open()
    await asyncio.gather(*(caller(n, Hammer(f"{seed} {n}")) for n in range(CALLERS)))


async def is_there(aio: AsyncOutlast, task_id: str) -> bool:
    with suppress(TaskNotFound):
        await aio.get(task_id)
        return True
    return False


@pytest.fixture(params=[1, 2])
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def _both_happened(outcomes: list[bool]) -> None:
    """A hammer that always or never hits in time shows nothing."""
    assert 0 < sum(outcomes) < len(outcomes), sum(outcomes)


def test_an_enqueue_is_there_or_not_and_stays_so(aio: AsyncOutlast, seed: int) -> None:
    """What the caller finds when it hears of its cancellation is how it remains."""
    told: dict[str, bool] = {}
    answered: list[bool] = []

    async def caller(n: int, hammer: Hammer) -> None:
        for m in range(CALLS_EACH):
            task_id = f"{n} {m}"
            answer = await hammer.perhaps(aio.enqueue("work", m, id=task_id))
            answered.append(answer is not None)
            told[task_id] = await is_there(aio, task_id)
            assert told[task_id] or answer is None

    asyncio.run(many(aio, caller, seed))
    stored = foreign_statuses(aio.path)
    assert stored.keys() == {task_id for task_id, found in told.items() if found}
    assert set(stored.values()) == {"pending"}
    _both_happened(answered)
    assert_sound(aio.path)


def test_a_lease_is_completed_once_whoever_was_cancelled(aio: AsyncOutlast, seed: int) -> None:
    again: list[bool] = []

    async def caller(n: int, hammer: Hammer) -> None:
        for lease in await aio.claim(f"w{n}", limit=CALLS_EACH):
            if await hammer.perhaps(lease.complete(lease.payload)) is None:
                status = (await aio.get(lease.task_id)).status
                again.append(await lease.complete(lease.payload))
                assert again[-1] is (status == "running")

    async def scene() -> None:
        await aio.enqueue_many("work", range(CALLERS * CALLS_EACH))
        await many(aio, caller, seed)

    asyncio.run(scene())
    rows = foreign_rows(aio.path, "SELECT status, payload = result, attempt FROM tasks")
    assert rows == [["completed", 1, 1]] * (CALLERS * CALLS_EACH)
    moves = [reason for _, reason in foreign_rows(aio.path, MOVES)]
    assert sorted(set(moves)) == ["claimed", "completed"]
    assert moves.count("completed") == moves.count("claimed") == CALLERS * CALLS_EACH
    _both_happened(again)
    assert_sound(aio.path)


def test_a_checkpoint_is_appended_once_or_not_at_all(aio: AsyncOutlast, seed: int) -> None:
    told: dict[str, int] = {}
    answered: list[bool] = []

    async def caller(n: int, hammer: Hammer) -> None:
        (lease,) = await aio.claim(f"w{n}")
        for m in range(CALLS_EACH):
            mark = f"{n} {m}"
            answer = await hammer.perhaps(lease.checkpoint("manual_checkpoint", mark))
            newest = await aio.latest_checkpoint(lease.task_id)
            told[mark] = int(newest is not None and newest.data == mark)
            assert answer is None or told[mark]
            answered.append(answer is not None)
        await lease.complete()

    async def scene() -> None:
        await aio.enqueue_many("work", range(CALLERS))
        await many(aio, caller, seed)

    asyncio.run(scene())
    marks = [mark for (mark,) in foreign_rows(aio.path, CHECKPOINTS)]
    assert {mark: marks.count(mark) for mark in told} == told
    _both_happened(answered)
    assert_sound(aio.path)


def test_a_cancelled_claim_leaves_no_task_held_and_none_charged(
    aio: AsyncOutlast, seed: int
) -> None:
    held: list[AsyncLease] = []
    answered: list[bool] = []

    async def caller(n: int, hammer: Hammer) -> None:
        wait = None if n % 2 else "5ms"
        for _ in range(CALLS_EACH):
            leases = await hammer.perhaps(aio.claim(f"w{n}", limit=2, wait=wait))
            answered.append(leases is not None)
            if leases and hammer.chance.random() < 0.5:
                await asyncio.gather(*(lease.release() for lease in leases))
            else:
                held.extend(leases or ())

    async def scene() -> None:
        await aio.enqueue_many("work", range(CALLERS * CALLS_EACH))
        await many(aio, caller, seed)

    asyncio.run(scene())
    ours = {lease.task_id: lease.token for lease in held}
    assert len(ours) == len(held)
    rows = foreign_rows(aio.path, CLAIMED)
    assert {task_id: token for task_id, _, status, token in rows if status == "running"} == ours
    assert {(attempt, status) for _, attempt, status, _ in rows} == {(1, "running"), (0, "pending")}
    _both_happened(answered)
    assert_sound(aio.path)


def test_what_is_taken_is_taken_once(aio: AsyncOutlast, seed: int) -> None:
    """At most once: a take that was cancelled under way has taken, and nobody gets it again."""
    taken: list[str] = []
    lost: list[set[str]] = []
    total = 2 * CALLERS * CALLS_EACH

    async def caller(n: int, hammer: Hammer) -> None:
        for _ in range(CALLS_EACH):
            tasks = await hammer.perhaps(aio.take(2))
            taken.extend(task.id for task in tasks or ())
            lost.append(set() if tasks else {"perhaps 1", "perhaps 2"})

    async def scene() -> None:
        await aio.enqueue_many("work", range(total))
        await many(aio, caller, seed)

    asyncio.run(scene())
    left = set(foreign_statuses(aio.path))
    assert len(set(taken)) == len(taken)
    assert not left & set(taken)
    assert total - len(left) - len(taken) <= sum(map(len, lost))
    _both_happened([not one for one in lost])
    assert_sound(aio.path, deleted=total - len(left))


def _nothing_moves(path: Path) -> None:
    assert foreign_rows(path, "SELECT count(*) FROM tasks WHERE status = 'running'") == [[0]]


def test_everything_at_once_ends_with_nothing_lost(aio: AsyncOutlast, seed: int) -> None:
    """Tasks go in, are claimed, worked on, settled; every call of it may be cancelled."""
    asked: set[str] = set()

    async def caller(n: int, hammer: Hammer) -> None:
        for m in range(CALLS_EACH // 2):
            asked.add(f"{n} {m}")
            while not await is_there(aio, f"{n} {m}"):
                await hammer.perhaps(aio.enqueue("work", id=f"{n} {m}"))
            for lease in await hammer.perhaps(aio.claim(f"w{n}")) or ():
                await hammer.perhaps(lease.renew())
                settling = lease.release if hammer.chance.random() < 0.3 else lease.complete
                while await hammer.perhaps(settling()) is None:
                    pass

    async def drain() -> None:
        while leases := await aio.claim("w", limit=100):
            await aio.complete_many([(lease, None) for lease in leases])

    async def scene() -> None:
        await many(aio, caller, seed)
        _nothing_moves(aio.path)
        await drain()

    asyncio.run(scene())
    assert foreign_statuses(aio.path) == dict.fromkeys(asked, "completed")
    rows = foreign_rows(aio.path, CLAIMED)
    assert {attempt for _, attempt, _, _ in rows} == {1}
    assert_sound(aio.path)


@pytest.mark.timeout(600)
def test_ten_thousand_coroutines_cancelled_at_random_lose_and_double_nothing(
    database: Path,
) -> None:
    """Each enqueues a task of its own; some bring a row along, which tells if they ran twice."""
    chance, acknowledged = random.Random(3), set[str]()

    async def one(aio: AsyncOutlast, number: int) -> None:
        task_id = f"t{number}"
        also = [("INSERT INTO ledger VALUES (?)", (task_id,))] if number % 50 == 0 else []
        await aio.enqueue("work", id=task_id, also=also)
        acknowledged.add(task_id)

    async def main() -> None:
        async with AsyncOutlast(database) as aio:
            await aio.open()
            foreign_rows(database, "CREATE TABLE ledger (task_id TEXT)")
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(one(aio, number)) for number in range(10_000)]
            for task in tasks:
                if chance.random() < 0.5:
                    loop.call_later(chance.uniform(0, 1.5), task.cancel)
            await asyncio.wait(tasks)
            assert not [task for task in tasks if not task.cancelled() and task.exception()]

    asyncio.run(main())
    stored = set(foreign_statuses(database))
    ledger = [task_id for (task_id,) in foreign_rows(database, "SELECT task_id FROM ledger")]
    assert acknowledged <= stored
    assert 0 < len(acknowledged) < 10_000, "some were cancelled, and some were not"
    assert len(ledger) == len(set(ledger))
    assert set(ledger) == {one for one in stored if int(one[1:]) % 50 == 0}
    assert_sound(database)
