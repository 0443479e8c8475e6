import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncLease, AsyncOutlast, Outlast
from outlast.app.aio.in_thread import InThread
from outlast.app.aio.reading import AsyncReadVerbs
from outlast.testing import ManualClock
from tests.aio.both import Cast
from tests.store.hand import Hand
from tests.support.foreign import assert_sound
from tests.support.snapshots import foreign_snapshot

Scene = Callable[[Any, ManualClock], Awaitable[None]]


async def goes_in_and_comes_out(app: Any, clock: ManualClock) -> None:
    await app.enqueue("work", {"n": 1}, id="t1", group="g", idempotency_key="key")
    await app.enqueue("work", {"n": 1}, id="t2", idempotency_key="key")
    await app.enqueue("work", {"n": 2}, id="t3", idempotency_key="key")
    await app.enqueue("work", id="late", delay=60, queue="other")
    await app.enqueue("work", float("nan"))
    await app.enqueue_many("work", [1, 2, 3], id=["a", "b", "c"], priority=5)
    await app.enqueue_many("work", [1], id=["a"])
    first, second = await app.claim("w", limit=2, lease="10s")
    clock.advance("5s")
    await first.renew(stage="half way")
    await first.checkpoint("manual_checkpoint", {"at": 1}, {"by": "hand"})
    await first.checkpoint("no such type", {})
    await first.complete({"sum": 3})
    await first.complete({"sum": 3})
    await second.fail("broken", delay=1)
    await second.complete()
    await app.wait("a", 0)
    await app.wait("b", 0)
    await app.wait("nobody", 0)
    (third,) = await app.prefetch("w", wait=5)
    await third.start()
    await third.release()
    await third.start()
    await app.claim("w", queue="empty", wait="10ms")


async def is_settled_in_every_way(app: Any, clock: ManualClock) -> None:
    await app.enqueue_many("work", range(8), id=list("abcdefgh"))
    leases = await app.claim("w", limit=4)
    await app.complete_many([(one, one.task_id) for one in leases[:2]])
    await app.complete_many([leases[0]])
    await leases[2].park("event")
    await leases[3].park("delay", delay="1h")
    await app.unpark("c")
    await app.park("c", "hold")
    await app.unpark("c")
    await app.cancel("d")
    await app.cancel("d")
    await app.fail("e", "by hand")
    await app.wait("d")
    await app.wait("e")
    await app.retry("e")
    await app.retry("f")
    await app.take(2)
    (lost,) = await app.claim("w", kinds=["work"])
    await app.cancel(lost.task_id)
    await lost.renew()
    await app.complete_many([(lost, None)])
    await app.pause("default")
    await app.claim("w")
    await app.unpause("default")
    await app.claim("w", lease=1)
    clock.advance("2s")
    await app.heal()


async def is_looked_at(app: Any, clock: ManualClock) -> None:
    await app.open()
    await app.migrate()
    await app.enqueue("work", {"n": 1}, id="t1", group="g", idempotency_key="key")
    (lease,) = await app.claim("w")
    await lease.checkpoint("llm_response", "said")
    for status in (None, "running", "no such status"):
        await app.tasks(status)
    await app.tasks(limit=0)
    for verb in (app.get, app.history, app.why, app.checkpoints, app.resolve):
        await verb("t1")
        await verb("nobody")
        await verb("")
    await app.latest_checkpoint("t1")
    await app.checkpoint_counts("t1")
    await app.keys("t1")
    await app.keys()
    for all_of in (app.counts, app.leases, app.paused_queues, app.stale_workers, app.schema):
        await all_of()
    await app.ids("t")
    await app.ids("t", 0)
    await app.group("g")
    await app.group("nobody")
    await app.held_by("w")
    await app.heartbeat("w", ["t1"], {"done": 1})
    await app.heartbeat("w", "t1")
    await app.workers()
    await app.is_alive("w")
    await app.is_alive("")
    await app.mark_dead("nobody", by="somebody")
    await app.mark_dead("")
    await app.backlog()
    await app.backlog("other")
    await app.stats()
    await app.snapshot()
    await app.snapshot("no such status")
    await app.flush_wal()
    await app.flush_wal("no such mode")
    await app.close()
    await lease.complete()
    await app.get("t1")


async def is_mended(app: Any, clock: ManualClock) -> None:
    await app.recover()
    await app.enqueue_many("work", range(4), id=list("abcd"))
    await app.claim("w", limit=2, lease="10s")
    await app.claim("w", lease="1h")
    await app.recovery_plan()
    await app.recovery_plan(limit=0)
    clock.advance("20s")
    await app.recovery_stats()
    await app.recovery_plan()
    report = await app.recover()
    await app.recovery_settings()
    await app.recovered(report.run_id)
    await app.recovered(report.run_id, limit=1)
    await app.last_report()
    await app.recovery_status()
    await app.reclaim_stale(10)
    await app.reclaim_stale("10s", force=True)
    await app.reclaim_stale("never")
    await app.recovery_stats()
    await app.heal()
    await app.check_integrity(quick=True)
    await app.check_integrity()


async def is_watched(app: Any, clock: ManualClock) -> None:
    await app.enqueue_many("work", range(3), id=list("abc"))
    await app.claim("w", limit=2)
    await app.events()
    await app.events("3.1", 2, kinds="task.*", task="b")
    await app.events("nowhere")
    await app.newest_events(2)
    await app.newest_events(0)
    await app.subscribers()
    await app.unsubscribe("nobody")
    await app.unsubscribe("")


async def is_operated(app: Any, clock: ManualClock) -> None:
    await app.enqueue_many("work", range(4), id=["t1", "t2", "t3", "t4"])
    await app.claim("w", limit=2)
    await app.force("t1", "pending", by="ada", reason="it hangs")
    await app.force_many("fail", status="pending", by="ada")
    await app.force("t2", "explode", by="ada")
    await app.held_recoveries()
    await app.approve_recovery(by="ada")
    await app.approve_recovery(["t1"], by="ada")
    await app.audit()
    await app.audit(items=True)
    await app.locks()
    await app.current_lock()
    await app.is_lock_stale()
    await app.release_lock("x", by="ada")


SCENES: list[Scene] = [
    is_operated,
    goes_in_and_comes_out,
    is_settled_in_every_way,
    is_looked_at,
    is_mended,
    is_watched,
]


def _played(app: Outlast | AsyncOutlast, scene: Scene, clock: ManualClock) -> list[Any]:
    record: list[Any] = []

    async def play() -> None:
        await scene(Cast(app, record), clock)
        await Cast(app, record).close()

    asyncio.run(play())
    return record


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_answer_and_every_row_is_the_same(tmp_path: Path, scene: Scene) -> None:
    by_threads, by_coroutines = tmp_path / "threads" / "work.db", tmp_path / "loop" / "work.db"
    clock, other_clock = ManualClock(), ManualClock()
    for path in (by_threads, by_coroutines):
        path.parent.mkdir()
    expected = _played(Outlast(by_threads, clock=clock), scene, clock)
    record = _played(AsyncOutlast(by_coroutines, clock=other_clock), scene, other_clock)
    assert len(record) == len(expected)
    for told, should in zip(record, expected, strict=True):
        assert told == should
    assert foreign_snapshot(by_coroutines).state == foreign_snapshot(by_threads).state
    # What one of the scenes takes is deleted.
    assert_sound(by_coroutines, deleted=2 if scene is is_settled_in_every_way else 0)


def test_the_scenes_leave_no_verb_out(tmp_path: Path) -> None:
    names = {
        name
        for n, scene in enumerate(SCENES)
        for name, *_ in _played(Outlast(tmp_path / f"{n}.db"), scene, ManualClock())
    }
    verbs = {
        name
        for of in (AsyncOutlast, AsyncReadVerbs, InThread, AsyncLease)
        for name, value in vars(of).items()
        if callable(value) and not name.startswith("_")
    }
    # Metrics tell the sizes of files, and reports how long each step took, which may differ.
    assert verbs - names == {"in_thread", "metrics", "recovery_report"}


def test_statements_of_the_callers_own_commit_with_the_task(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.open()
        with closing(Hand(aio.path)) as hand:
            hand.run("CREATE TABLE ledger (entry TEXT)")
        entry = "INSERT INTO ledger VALUES (?)"
        await aio.enqueue("work", id="t1", also=[(entry, ("in",))])
        (lease,) = await aio.claim("w")
        await lease.complete(also=[(entry, ("out",))])
        with closing(Hand(aio.path)) as hand:
            assert hand.rows("SELECT entry FROM ledger") == [("in",), ("out",)]

    asyncio.run(scene())


def test_a_record_of_a_task_waits_as_whoever_made_it_does(aio: AsyncOutlast, app: Outlast) -> None:
    async def scene() -> None:
        made = await aio.enqueue("work", id="t1")
        (lease,) = await aio.claim("w")
        await lease.complete("done")
        found = [made, await aio.get("t1"), *await aio.tasks()]
        assert [await one.wait(5) for one in found] == ["done"] * 3
        again = await aio.retry("t1")
        (lease,) = await aio.claim("w")
        await lease.complete("again")
        assert await again.wait(5) == "again"

    asyncio.run(scene())
    assert [app.get("t1").wait(5), *(one.wait(5) for one in app.tasks())] == [
        "done",
        "again",
        "done",
    ]


def test_any_call_of_the_object_for_threads_can_be_made_in_a_thread(aio: AsyncOutlast) -> None:
    async def scene() -> None:
        await aio.in_thread(Outlast.enqueue, "work", id="t1")
        assert (await aio.in_thread(Outlast.get, "t1")).wait is not None

    asyncio.run(scene())
    assert repr(aio) == f"<AsyncOutlast {aio.path}>"
