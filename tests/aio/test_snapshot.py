"""The list of every task at one moment, for coroutines."""

import asyncio
from contextlib import aclosing

import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast

MANY = 250


def test_every_task_comes_newest_first_while_others_write(aio: AsyncOutlast, app: Outlast) -> None:
    async def scene() -> list[str]:
        snapshot = aio.snapshot()
        found = [(await anext(snapshot)).id]
        await aio.enqueue("work")
        found += [task.id async for task in snapshot]
        return found

    stored = app.enqueue_many("work", range(MANY))
    assert asyncio.run(scene()) == stored[::-1]


def test_leaving_early_lets_go_of_the_moment(aio: AsyncOutlast, app: Outlast) -> None:
    async def scene() -> list[bool]:
        busy = []
        async with aclosing(aio.snapshot("pending")) as snapshot:
            async for task in snapshot:
                assert task.status == "pending"
                await aio.enqueue("work")
                busy.append((await aio.flush_wal()).busy)
                break
        await aio.enqueue("work")
        return [*busy, (await aio.flush_wal()).busy]

    app.enqueue_many("work", range(MANY))
    assert asyncio.run(scene()) == [True, False]


def test_its_tasks_are_awaited_and_wrong_words_are_refused(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        (task,) = [one async for one in aio.snapshot()]
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        assert await task.wait(5) == "done"
        with pytest.raises(InvalidInput):
            await anext(aio.snapshot("no such status"))

    asyncio.run(scene())
