"""An AsyncOutlast belongs to no loop: it outlives them, and serves several at once."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, LeaseLost, Outlast
from outlast.app.aio.thread_pool import ThreadPool
from tests.aio.test_cancelling import nobody_can_write, under_way
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

SOON_SECONDS = 60.0


def test_one_object_serves_one_loop_after_another(aio: AsyncOutlast) -> None:
    async def work(n: int) -> int:
        task = await aio.enqueue("work", n, id=f"t{n}")
        waiting = asyncio.create_task(task.wait(SOON_SECONDS))
        (lease,) = await aio.claim("w", wait=SOON_SECONDS)
        await lease.complete(n)
        result: int = await waiting
        return result

    assert [asyncio.run(work(n)) for n in range(3)] == [0, 1, 2]
    asyncio.run(aio.close())
    assert asyncio.run(work(3)) == 3


def test_a_loop_that_ends_with_waiters_does_not_spoil_the_next(aio: AsyncOutlast) -> None:
    async def leaves_waiters_behind() -> None:
        await aio.enqueue("work", id="t1")
        tasks = {
            asyncio.create_task(aio.wait("t1")),
            asyncio.create_task(aio.claim("w", queue="q")),
        }
        await asyncio.wait(tasks, timeout=0.05)

    async def goes_on() -> str:
        waiting = asyncio.create_task(aio.wait("t1", SOON_SECONDS))
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        return str(await waiting)

    asyncio.run(leaves_waiters_behind())
    assert asyncio.run(goes_on()) == "done"


def test_a_loop_closed_over_its_waiters_does_not_spoil_the_next(aio: AsyncOutlast) -> None:
    """Closed without a word to its tasks, as asyncio.run never does and others do."""

    async def begin() -> asyncio.Task[object]:
        await aio.enqueue("work", id="t1")
        waiting: asyncio.Task[object] = asyncio.create_task(aio.wait("t1"))
        await asyncio.wait([waiting], timeout=0.05)
        return waiting

    loop = asyncio.new_event_loop()
    waiting = loop.run_until_complete(begin())
    loop.close()

    async def goes_on() -> str:
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        return str(await aio.wait("t1", SOON_SECONDS))

    assert asyncio.run(goes_on()) == "done"
    assert not waiting.done()
    _forgotten(waiting)


def _forgotten(task: asyncio.Task[object]) -> None:
    """Its loop is gone, and asyncio need not complain of it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def _until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_was_taken_stays_taken_though_its_loop_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that ran the call looks after the loop's result last, and may come late to it."""
    awaited, closed, looked = threading.Event(), threading.Event(), threading.Event()
    undone: list[bool] = []
    real = ThreadPool._undo_unseen

    def late(pool: ThreadPool, *args: Any) -> None:
        closed.wait(60)
        real(pool, *args)
        looked.set()

    monkeypatch.setattr(ThreadPool, "_undo_unseen", late)
    pool = ThreadPool(1)

    async def main() -> bool:
        asyncio.get_running_loop().call_soon(awaited.set)
        return await pool.undone_if_cancelled(lambda: awaited.wait(60), undone.append)

    assert asyncio.run(main())
    closed.set()
    assert looked.wait(60)
    asyncio.run(pool.close())
    assert undone == []


def test_what_was_under_way_when_its_loop_was_closed_happens_wholly(aio: AsyncOutlast) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(aio.open())
    with nobody_can_write(aio) as let_go:
        task = loop.run_until_complete(under_way(aio, aio.enqueue("work", id="t1")))
        loop.close()
        let_go()
        _until(lambda: foreign_statuses(aio.path) == {"t1": "pending"})
    _forgotten(task)
    assert asyncio.run(aio.counts())["pending"] == 1


def test_a_claim_whose_loop_was_closed_gives_its_leases_back(
    aio: AsyncOutlast, app: Outlast
) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(aio.enqueue("work", id="t1"))
    with nobody_can_write(aio) as let_go:
        task = loop.run_until_complete(under_way(aio, aio.claim("w")))
        loop.close()
        let_go()
        _until(lambda: len(app.history("t1")) == 2)
    _forgotten(task)
    assert (app.get("t1").status, app.get("t1").attempt) == ("pending", 0)


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "an object each"])
def test_loops_in_several_threads_work_on_one_store(
    make_aio: Callable[..., AsyncOutlast], shared: bool
) -> None:
    """Each enqueues, claims what anybody enqueued, and waits for results of its own."""
    apps = [make_aio()] * 3 if shared else [make_aio() for _ in range(3)]
    results: dict[str, str] = {}

    async def asks(app: AsyncOutlast, n: int) -> None:
        tasks = [await app.enqueue("work", id=f"{n} {m}") for m in range(20)]
        for task, result in zip(
            tasks, await asyncio.gather(*(task.wait(SOON_SECONDS) for task in tasks)), strict=True
        ):
            results[task.id] = result

    async def works(app: AsyncOutlast, n: int) -> None:
        while len(results) < 60:
            for lease in await app.claim(f"w{n}", limit=3, wait="50ms"):
                await lease.complete(f"done {lease.task_id}")

    async def both(app: AsyncOutlast, n: int) -> None:
        await asyncio.gather(asks(app, n), works(app, n))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(both(apps[n], n))) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_SECONDS)
    assert results == {f"{n} {m}": f"done {n} {m}" for n in range(3) for m in range(20)}
    assert_sound(apps[0].path)


def test_threads_and_coroutines_work_on_one_store(aio: AsyncOutlast, app: Outlast) -> None:
    async def scene() -> None:
        def asks() -> list[str]:
            return [app.enqueue("work").wait(SOON_SECONDS) for _ in range(10)]

        from_thread = asyncio.get_running_loop().run_in_executor(None, asks)
        for _ in range(10):
            (lease,) = await aio.claim("w", wait=SOON_SECONDS)
            await lease.complete("by the loop")
        assert await from_thread == ["by the loop"] * 10

    asyncio.run(scene())


async def _leaves_by(aio: AsyncOutlast, error: BaseException) -> None:
    async with aio:
        await aio.claim("w")
        raise error


def test_leaving_by_an_error_charges_what_was_held_as_a_crash_does(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        with pytest.raises(OSError, match="the handler broke"):
            await _leaves_by(aio, OSError("the handler broke"))
        task = await aio.get("t1")
        assert (task.status, task.attempt, task.recovery_count) == ("pending", 1, 1)

    asyncio.run(scene())


def test_leaving_because_one_was_cancelled_charges_nothing(aio: AsyncOutlast) -> None:
    """Ctrl-C under asyncio.run is a cancellation, and so is the end of anybody's patience."""

    async def body(is_held: asyncio.Event) -> None:
        async with aio:
            await aio.enqueue("work", id="t1")
            await aio.claim("w")
            is_held.set()
            await asyncio.sleep(SOON_SECONDS)

    async def scene() -> None:
        is_held = asyncio.Event()
        task = asyncio.create_task(body(is_held))
        await is_held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await aio.get("t1")
        assert (found.status, found.attempt, found.recovery_count) == ("pending", 0, 0)

    asyncio.run(scene())


def test_a_closed_object_keeps_no_thread_and_its_leases_are_lost(aio: AsyncOutlast) -> None:
    def threads() -> set[threading.Thread]:
        return {one for one in threading.enumerate() if one.name.startswith("outlast")}

    before = threads()

    async def scene() -> None:
        await aio.enqueue("work", id="t1")
        (lease,) = await aio.claim("w")
        await aio.close()
        with pytest.raises(LeaseLost, match="was closed"):
            await lease.complete()

    asyncio.run(scene())
    assert not threads() - before


def _forks(path: str) -> None:
    import asyncio
    import os

    from outlast import AsyncOutlast
    from tests.support.childside import say

    app = AsyncOutlast(path)
    asyncio.run(app.enqueue("work", id="parent"))
    asyncio.run(app.counts())
    child = os.fork()
    if not child:
        asyncio.run(app.enqueue("work", id="child"))
        say(asyncio.run(app.counts())["pending"])
        asyncio.run(app.close())
        os._exit(0)
    os.waitpid(child, 0)
    asyncio.run(app.enqueue("work", id="parent again"))
    say(asyncio.run(app.counts())["pending"])


def test_a_forked_child_begins_with_threads_of_its_own(database: Path) -> None:
    with Child(_forks, database) as child:
        assert child.hear_all() == [2, 3]
    ids = [one for (one,) in foreign_rows(database, "SELECT id FROM tasks ORDER BY seq")]
    assert ids == ["parent", "child", "parent again"]
