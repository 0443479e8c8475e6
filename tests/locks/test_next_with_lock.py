"""One task at a time: the lock is taken with the claim, and ends with the lease."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Lease, LockHeld, Outlast, Settings
from outlast.testing import ManualClock
from tests.locks.telling import Told
from tests.store.hand import Hand
from tests.support.children import Child

LONG_SECONDS = 100.0

Ending = Callable[[Outlast, Lease, ManualClock], object]

ENDINGS: dict[str, Ending] = {
    "complete": lambda app, lease, clock: lease.complete(),
    "complete_many": lambda app, lease, clock: app.complete_many([(lease, 1)]),
    "fail": lambda app, lease, clock: lease.fail("broken"),
    "release": lambda app, lease, clock: lease.release(),
    "park": lambda app, lease, clock: lease.park("hold"),
    "cancel": lambda app, lease, clock: app.cancel(lease.task_id),
    "fail by operator": lambda app, lease, clock: app.fail(lease.task_id, "enough"),
    "run out": lambda app, lease, clock: clock.advance(lease.lease_ms / 1000),
    "close": lambda app, lease, clock: app.close(),
}


@pytest.mark.proves("LCK-12")
@pytest.mark.parametrize("ending", ENDINGS)
def test_two_agents_work_one_at_a_time_and_the_lock_ends_with_the_lease(
    make_app: Callable[..., Outlast], clock: ManualClock, hand: Hand, ending: str
) -> None:
    app, other = make_app(), make_app()
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    first = app.next_with_lock("agent-1")
    assert first is not None
    assert first.task_id == "a"
    found = other.current_lock()
    assert found is not None
    assert (found.holder, found.task_id) == ("agent-1", "a")
    with pytest.raises(LockHeld, match="held by agent-1"):
        other.next_with_lock("agent-2")
    assert not other.lock().acquire()
    assert [one.id for one in other.tasks("running")] == ["a"]
    ENDINGS[ending](app, first, clock)
    assert other.current_lock() is None
    if ending != "run out":
        assert hand.rows("SELECT * FROM queue_processing_lock") == []
        assert not other.is_lock_stale()
    second = other.next_with_lock("agent-2")
    assert second is not None
    assert other.current_lock() is not None
    assert len(other.tasks("running")) == 1


def test_renewing_the_lease_renews_the_lock(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(2))
    lease = app.next_with_lock("agent", lease=10)
    assert lease is not None
    for _ in range(5):
        clock.advance(9)
        lease.renew()
        found = app.current_lock()
        assert found is not None
        assert found.left_ms == 10_000
        with pytest.raises(LockHeld):
            app.next_with_lock("other")


@pytest.mark.proves("LCK-12")
def test_plain_claims_need_no_lock_and_respect_none(app: Outlast) -> None:
    app.enqueue_many("work", range(3))
    app.next_with_lock("agent")
    assert len(app.claim("w", limit=5)) == 2


def test_nothing_eligible_is_none_and_takes_no_lock(app: Outlast) -> None:
    assert app.next_with_lock("agent") is None
    assert app.locks() == []
    app.enqueue("work", queue="slow")
    assert app.next_with_lock("agent") is None
    assert app.next_with_lock("agent", queue="slow", kinds=["mail"]) is None
    assert app.locks() == []
    assert app.next_with_lock("agent", queue="slow", lock="slow") is not None
    assert [found.name for found in app.locks()] == ["slow"]


def test_a_lock_that_somebody_holds_by_hand_keeps_agents_out_and_claims_nothing(
    app: Outlast,
) -> None:
    app.enqueue("work", id="t1")
    with app.lock(), pytest.raises(LockHeld):
        app.next_with_lock("agent")
    task = app.get("t1")
    assert (task.status, task.attempt) == ("pending", 0)
    assert app.next_with_lock("agent") is not None


def test_the_rows_of_locks_that_ended_with_their_leases_are_cleared_away(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue_many("work", range(2))
    for lock in ("a", "b"):
        lease = app.next_with_lock("agent", lock=lock)
        assert lease is not None
        lease.complete()
    app.lock("old", ttl=1).acquire()
    clock.advance(1)
    assert app.heal().locks_cleaned == 1
    assert hand.rows("SELECT * FROM locks") == []


def _takes(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    lease = Outlast(path).next_with_lock("victim", lease=86_400)
    say(lease and lease.task_id)
    hear()


@pytest.mark.proves("HEAL-07", "LCK-16")
def test_after_a_crash_the_next_agent_is_handed_the_orphan_with_its_lock_at_once(
    database: Path,
) -> None:
    # Else its detector puts the orphan back, and the next agent has nothing to find.
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        app.enqueue("work", id="t1")
        with Child(_takes, database) as child:
            assert child.hear() == "t1"
            with pytest.raises(LockHeld):
                app.next_with_lock("agent")
            child.kill()
        lease = app.next_with_lock("agent")
        assert lease is not None
        assert (lease.task_id, lease.attempt) == ("t1", 2)


@pytest.mark.parametrize("how", ["run out", "forced"])
def test_a_lock_that_is_lost_with_its_lease_is_told_of_unless_somebody_took_it_by_force(
    app: Outlast, clock: ManualClock, events: Callable[[], list[Told]], how: str
) -> None:
    """By force it goes from a living holder: the lock did not run out, and nobody is dead."""
    app.enqueue("work")
    app.next_with_lock("agent", lease=10)
    clock.advance(10 if how == "run out" else 1)
    assert app.reclaim_stale(0, force=how == "forced") == 1
    assert app.current_lock() is None
    assert events() == ([("lock.expired", "default", "agent")] if how == "run out" else [])


def test_agents_that_wait_take_turns_without_overlapping(database: Path) -> None:
    """The history is the witness: each claim comes after the end of the one before."""
    with Outlast(database) as app:
        app.enqueue_many("work", range(20))

        def work(name: str) -> None:
            while (lease := app.next_with_lock(name, wait=0.5)) is not None:
                lease.complete()

        def patient(name: str) -> None:
            while app.counts()["pending"]:
                try:
                    work(name)
                except LockHeld:
                    continue

        threads = [threading.Thread(target=patient, args=(f"agent-{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert app.counts()["completed"] == 20
    hand = Hand(database)
    moves = [to for (to,) in hand.rows("SELECT to_status FROM transitions ORDER BY pos")]
    hand.close()
    assert moves == ["running", "completed"] * 20


@pytest.mark.proves("LCK-15")
def test_while_another_works_under_the_lock_that_is_said_though_nothing_is_eligible(
    app: Outlast,
) -> None:
    """Also by one who was idle before, and now asks by reading alone."""
    app.enqueue("work")
    assert app.next_with_lock("agent-1") is not None
    for _ in range(2):
        with pytest.raises(LockHeld):
            app.next_with_lock("agent-2")
        assert app.claim("idle") == []
