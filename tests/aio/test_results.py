"""Coroutines that wait for results: what they are told, and that one watch serves them all."""

import asyncio
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import pytest

from outlast import (
    AsyncOutlast,
    Outlast,
    StoreError,
    StoreNotFound,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
)
from outlast.store import change_watch
from outlast.store.ops.tasks import Tasks
from tests.aio.test_cancelling import until
from tests.support.children import Child

SOON_SECONDS = 60.0
CROWD = 1000


def _ears(path: Path) -> list[str]:
    return os.listdir(f"{path}-outlast/wake")


async def _asleep(aio: AsyncOutlast, task_id: str) -> "asyncio.Task[object]":
    """A wait that has nothing left to do but to be woken."""
    waiting: asyncio.Task[object] = asyncio.create_task(aio.wait(task_id, SOON_SECONDS))
    await until(lambda: _ears(aio.path))
    await asyncio.wait([waiting], timeout=0.1)
    return waiting


@pytest.mark.parametrize("timeout", [0, 5, None])
def test_a_task_that_has_ended_answers_at_once(aio: AsyncOutlast, timeout: float | None) -> None:
    async def scene() -> None:
        await aio.enqueue_many("work", range(3), id=["done", "failed", "cancelled"])
        done, failed = await aio.claim("w", limit=2)
        await done.complete({"sum": 3})
        await failed.fail("broken", retry=False)
        await aio.cancel("cancelled")
        assert await aio.wait("done", timeout) == {"sum": 3}
        with pytest.raises(TaskFailed, match="broken") as raised:
            await aio.wait("failed", timeout)
        assert (raised.value.task_id, raised.value.error) == ("failed", "broken")
        with pytest.raises(TaskCancelled):
            await aio.wait("cancelled", timeout)
        with pytest.raises(TaskNotFound):
            await aio.wait("nobody", timeout)

    asyncio.run(scene())


def test_one_who_waits_long_enough_is_told_so_and_leaves_nothing_behind(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        for timeout in (0, "20ms"):
            with pytest.raises(TimeoutError, match="t1 did not end within"):
                await aio.wait("t1", timeout)
        await until(lambda: not _ears(aio.path))

    asyncio.run(scene())


def test_a_thousand_coroutines_share_one_watch(
    aio: AsyncOutlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    look = Tasks.ended_among

    def counted(self: Tasks, task_ids: Sequence[str]) -> list[str]:
        looked.append(len(task_ids))
        return look(self, task_ids)

    monkeypatch.setattr(Tasks, "ended_among", counted)

    async def scene() -> None:
        ids = await aio.enqueue_many("work", range(CROWD))
        waiting = [asyncio.create_task(aio.wait(task_id, SOON_SECONDS)) for task_id in ids]
        await until(lambda: CROWD in looked)
        assert len(_ears(aio.path)) == 1
        leases = await aio.claim("w", limit=CROWD)
        await aio.complete_many([(lease, lease.payload) for lease in leases])
        assert await asyncio.gather(*waiting) == list(range(CROWD))

    asyncio.run(scene())
    assert len(looked) < CROWD / 10


def test_retries_in_between_do_not_end_a_wait(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        waiting = await _asleep(aio, "t1")
        for _ in range(2):
            (lease,) = await aio.claim("w")
            await lease.fail("again", delay=0)
        (lease,) = await aio.claim("w")
        await lease.release()
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        (lease,) = await aio.claim("w")
        await lease.complete("at last")
        assert await waiting == "at last"

    asyncio.run(scene())


def test_one_who_gives_up_does_not_take_the_others_along(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        impatient, patient = await _asleep(aio, "t1"), await _asleep(aio, "t1")
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        assert await patient == "done"

    asyncio.run(scene())


class Named(StrEnum):
    ONE = "t1"


@pytest.mark.parametrize("odd", ["a\0b", "\0"])
def test_an_id_that_no_task_can_have_harms_nobody_else_who_waits(
    aio: AsyncOutlast, odd: str
) -> None:
    """An enumeration's member is as good as its text; one with a NUL is not to be found."""

    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        patient, named = await _asleep(aio, "t1"), await _asleep(aio, Named.ONE)
        with pytest.raises(TaskNotFound):
            await aio.wait(odd, SOON_SECONDS)
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        assert [await patient, await named] == ["done", "done"]

    asyncio.run(scene())


def test_closing_ends_the_waits_for_results_and_for_work(
    make_aio: Callable[..., AsyncOutlast],
) -> None:
    """Also where another object keeps the store open: this one's user has left."""
    aio, other = make_aio(), make_aio()

    async def scene() -> None:
        await other.enqueue("work", id="t1", queue="elsewhere")
        result = await _asleep(aio, "t1")
        work = asyncio.create_task(aio.claim("w", wait=SOON_SECONDS))
        await until(lambda: len(_ears(aio.path)) == 2)
        await aio.close()
        for waiting in (result, work):
            with pytest.raises(StoreError, match="closed"):
                await asyncio.wait_for(waiting, SOON_SECONDS / 2)
        await other.enqueue("work", id="t2")
        assert (await other.get("t2")).status == "pending"

    asyncio.run(scene())


def test_one_who_only_looks_can_wait_and_never_serves(database: Path, app: Outlast) -> None:
    async def scene() -> None:
        looking = AsyncOutlast(database)
        with pytest.raises(StoreNotFound):
            await looking.wait("t1")
        with Child(_completes, database) as child:
            assert child.hear() == "claimed"
            waiting = await _asleep(looking, "t1")
            child.say()
            assert await waiting == "by another process"
            assert looking._handle._session is None
        await looking.close()

    asyncio.run(scene())


def _completes(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    say("claimed")
    hear()
    lease.complete("by another process")
    hear()


@pytest.mark.parametrize("by", ["datagram", "polling"])
def test_another_process_ends_a_wait(
    aio: AsyncOutlast, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """By a datagram where nobody polls; by polling where no socket can be made."""
    if by == "datagram":
        monkeypatch.setattr(change_watch, "POLL_SECONDS", 2 * SOON_SECONDS)

    async def scene() -> None:
        with Child(_completes, aio.path) as child:
            assert child.hear() == "claimed"
            if by == "polling":
                os.rmdir(f"{aio.path}-outlast/wake")
                waiting: asyncio.Task[object] = asyncio.create_task(aio.wait("t1", SOON_SECONDS))
                await asyncio.wait([waiting], timeout=0.1)
            else:
                waiting = await _asleep(aio, "t1")
            child.say()
            assert await waiting == "by another process"

    asyncio.run(scene())
