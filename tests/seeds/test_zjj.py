"""zjj's tests of self-healing, by its names: an entry is a task, an agent a worker, the queue's
processing lock a named lock.

Its code judged an entry by its start, so that a worker that kept its lock for more than five
minutes lost it; it healed one of its active stages only; and it wrote at every try to claim.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import LeaseLost, Outlast, Settings
from outlast.testing import ManualClock
from tests.seeds.crashing import crash, facts
from tests.store.hand import Hand, everything
from tests.support.forge import Forge
from tests.support.recovery_validator import seen, validated

pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 300
STALE = 100
PROCESSES = 8


def locks(database: Path) -> list[Any]:
    """Whose locks there are, in the seed's words."""
    return facts(database, "SELECT agent_id FROM queue_processing_lock ORDER BY id")


def entry(database: Path, column: str = "status") -> Any:
    """One column of the only entry, in the seed's words."""
    ((value,),) = facts(database, f"SELECT {column} FROM merge_queue")
    return value


@pytest.fixture
def by_hand(make_app: Callable[..., Outlast]) -> Outlast:
    """Nothing heals by itself: the rollback path of the seed."""
    return make_app(heal_at_claim=False, detection_interval_seconds=0)


# test_worker_crash_recovery


@pytest.mark.proves("TST-22")
def test_worker_crash_recovery(database: Path) -> None:
    """FS-2, POST-2: the entry is pending again, without agent and start; it keeps what it is."""
    # Else its detector takes the entry back before the test has seen it stuck.
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        app.enqueue("merge", id="e", queue="default", group="bd-2i5", priority=7)
        before = facts(database, "SELECT workspace, bead_id, priority FROM merge_queue")
        assert crash(database, "agent-1") == ["e"]
        assert entry(database) == "claimed", "stuck, as the contract says"
        changed_at = entry(database, "state_changed_at")
        with validated(database):
            assert app.heal().entries_reclaimed == 1
        row = facts(database, "SELECT status, agent_id, started_at FROM merge_queue")
        assert row == [["pending", None, None]]
        assert entry(database, "state_changed_at") >= changed_at
        assert facts(database, "SELECT workspace, bead_id, priority FROM merge_queue") == before
        assert app.get("e").last_worker == "agent-1", "and it is known who had it"


@pytest.mark.proves("TST-22")
@pytest.mark.parametrize("stage", [None, "rebasing", "testing"])
def test_worker_crash_recovery_in_every_active_stage(
    by_hand: Outlast, clock: ManualClock, stage: str | None
) -> None:
    """INV-2.3: the seed left an entry that was rebasing or testing to its fate."""
    by_hand.enqueue("merge")
    (lease,) = by_hand.claim("agent-1")
    if stage:
        lease.renew(stage=stage)
    assert entry(by_hand.path) == (stage or "claimed")
    clock.advance(TIMEOUT_SECONDS)
    assert by_hand.heal().entries_reclaimed == 1
    assert entry(by_hand.path) == "pending"


@pytest.mark.proves("TST-22")
def test_worker_crash_recovery_by_manual_reclaim(by_hand: Outlast, clock: ManualClock) -> None:
    """POST-4.1, PRE-3, INV-5.2: by any threshold, expired locks too; living leases by force."""
    by_hand.enqueue("merge", id="e")
    (lease,) = by_hand.claim("agent-1")
    assert by_hand.lock(holder="agent-1").acquire()
    clock.advance("10s")
    assert by_hand.reclaim_stale(0) == 0, "its lease is good"
    assert locks(by_hand.path) == [["agent-1"]]
    clock.advance(TIMEOUT_SECONDS)
    assert by_hand.claim("agent-2") == [], "nothing heals by itself here"
    assert by_hand.reclaim_stale(10_000) == 0
    assert by_hand.reclaim_stale(TIMEOUT_SECONDS) == 1
    assert by_hand.reclaim_stale(TIMEOUT_SECONDS) == 0, "INV-4.2"
    assert locks(by_hand.path) == []
    assert entry(by_hand.path) == "pending"
    with pytest.raises(LeaseLost):
        lease.complete()
    (second,) = by_hand.claim("agent-2")
    assert by_hand.reclaim_stale(0, force=True) == 1
    with pytest.raises(LeaseLost):
        second.complete()


def test_a_worker_that_goes_on_renewing_is_never_reclaimed(
    app: Outlast, clock: ManualClock
) -> None:
    """The seed took an entry away five minutes after its start, whatever its worker did."""
    app.enqueue("merge")
    (lease,) = app.claim("agent-1")
    for _ in range(20):
        clock.advance("1m")
        lease.renew()
        assert app.claim("agent-2") == []
        assert app.reclaim_stale(TIMEOUT_SECONDS) == 0
    assert lease.complete()


# test_stale_processing_lock_allows_new_claims


@pytest.mark.proves("TST-23")
def test_stale_processing_lock_allows_new_claims(
    app: Outlast, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """POST-1, INV-1: it stands until it expires; then a claim removes it, says so and goes on."""
    assert app.lock(holder="agent-1").acquire()
    app.enqueue_many("merge", range(2), id=["first", "second"])
    clock.advance(TIMEOUT_SECONDS - 0.001)
    assert [lease.task_id for lease in app.claim("agent-2")] == ["first"]
    assert locks(app.path) == [["agent-1"]], "an active lock is not stolen"
    clock.advance("1.001s")
    assert [lease.task_id for lease in app.claim("agent-2")] == ["second"]
    assert locks(app.path) == []
    (line,) = [one for one in caplog.messages if one.startswith("lock ")]
    assert line == "lock default of worker agent-1 ran out 1.0 s ago"
    assert app.lock(holder="agent-2").acquire()
    assert locks(app.path) == [["agent-2"]], "and may be taken anew"


@pytest.mark.proves("TST-23")
def test_stale_processing_lock_of_a_killed_holder_goes_with_its_entry(database: Path) -> None:
    """FS-1: it had most of its time before it, and its holder was killed."""
    # Else its detector frees both before the claim does.
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        app.enqueue("merge", id="e")
        assert crash(database, "agent-1", lock="default") == ["e"]
        assert locks(database) == [["agent-1"]]
        with validated(database):
            (lease,) = app.claim("agent-2")
        assert (lease.task_id, lease.attempt) == ("e", 2)
        assert locks(database) == []


# test_automatic_recovery_on_claim


@pytest.mark.proves("TST-24")
def test_automatic_recovery_on_claim(database: Path) -> None:
    """NEW-1, KBC-1: the store was open before the crash; nobody calls anything but claim."""
    settings = Settings(detection_interval_seconds=0)
    with Outlast(database, settings=settings) as app:
        app.enqueue("merge", id="e")
        assert crash(database, "agent-1") == ["e"]
        with validated(database) as before:
            assert before.stuck == {"e"}
            (lease,) = app.claim("agent-2")
            assert (lease.task_id, lease.attempt) == ("e", 2)
            assert [one.reason for one in app.history("e")] == ["claimed", "crash_retry", "claimed"]
            assert lease.complete()


@pytest.mark.proves("TST-24")
def test_automatic_recovery_on_claim_of_an_expired_lease(app: Outlast, clock: ManualClock) -> None:
    """FS-5: its time has passed, and it is still marked as claimed; its holder may even live."""
    app.enqueue("merge", id="e")
    (late,) = app.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)
    (lease,) = app.claim("agent-2")
    assert (lease.task_id, lease.attempt) == ("e", 2)
    with pytest.raises(LeaseLost):
        late.complete()
    assert lease.complete()


@pytest.mark.proves("HEAL-07")
def test_automatic_recovery_on_claim_with_lock_at_the_very_moment(
    app: Outlast, clock: ManualClock
) -> None:
    """POST-1.1, POST-2.1: it looks each time, though a claim has looked in the same second."""
    app.enqueue_many("merge", range(2), id=["e", "waiting"])
    assert app.claim("agent-2", queue="empty") == []
    assert crash(app.path, "agent-1", 1, clock, lock="default") == ["e"]
    lease = app.next_with_lock("agent-2")
    assert lease is not None
    assert (lease.task_id, lease.attempt) == ("e", 2)
    assert locks(app.path) == [["agent-2"]]


def test_automatic_recovery_on_claim_can_be_turned_off(by_hand: Outlast) -> None:
    """RISK-2: the rollback path; calling it still works."""
    by_hand.enqueue("merge", id="e")
    assert crash(by_hand.path, "agent-1") == ["e"]
    assert by_hand.claim("agent-2") == []
    assert seen(by_hand.path).stuck == {"e"}
    with validated(by_hand.path):
        assert by_hand.heal().entries_reclaimed == 1


# test_recovery_stats_accuracy


@pytest.mark.proves("TST-25")
def test_recovery_stats_accuracy(by_hand: Outlast, clock: ManualClock) -> None:
    """POST-5, FN-2, B-51: what would be done is what is done then, and counting changes nothing."""
    app = by_hand
    app.enqueue("merge", id="spent", max_recoveries=0)
    app.enqueue_many("merge", range(7), id=["a", "b", "c", "d", "e", "f", "waiting"])
    assert crash(app.path, "crashed", 3, clock) == ["spent", "a", "b"]
    app.claim("late", limit=2, lease="10s")
    app.claim("living", limit=2, lease="1h")
    assert app.lock(ttl=10, holder="late").acquire()
    clock.advance("10s")
    with closing(Hand(app.path)) as hand:
        before = everything(hand)
        told = app.recovery_stats()
        assert everything(hand) == before
    assert told.is_dry_run
    assert (told.entries_reclaimed, told.entries_failed, told.locks_cleaned) == (4, 1, 1)
    assert told.dead_workers == ("crashed",)
    done = app.heal()
    assert replace(done, is_dry_run=True) == told
    assert app.counts() | {"pending": 5, "failed": 1, "running": 2} == app.counts()
    again = app.heal()
    assert (again.entries_reclaimed, again.entries_failed, again.locks_cleaned) == (0, 0, 0)
    assert replace(again, is_dry_run=True) == app.recovery_stats(), "INV-4.1"


# test_concurrent_automatic_recovery


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge("tests.seeds.crashing") as made:
        yield made


@pytest.mark.proves("TST-26")
def test_concurrent_automatic_recovery(database: Path, forge: Forge) -> None:
    """POST-6: eight processes find the same dead agent at once; each entry is taken back once.

    Half of them heal first and half only claim, so that recoveries and claims meet.
    """
    ids = {f"e-{n}" for n in range(STALE)}
    with Outlast(database) as app:
        app.enqueue_many("merge", range(STALE), id=sorted(ids))
    processes = forge.fork("claims_when_told", database, count=PROCESSES)
    assert [one.hear() for one in processes] == ["open"] * PROCESSES
    assert set(crash(database, "agent-1", STALE)) == ids
    with validated(database) as before:
        assert before.stuck == ids
        for one in processes:
            os.kill(one.pid, signal.SIGUSR1)
        told = [one.hear() for one in processes]
    assert sum(one["put_back"] for one in told) <= STALE
    claimed = [task_id for one in told for task_id in one["claimed"]]
    assert sorted(claimed) == sorted(ids), "each of them by one process only"
    after = seen(database)
    assert {task.recovery_count for task in after.tasks.values()} == {1}
    reasons = "SELECT reason, count(*) FROM transitions GROUP BY reason ORDER BY reason"
    assert facts(database, reasons) == [["claimed", 2 * STALE], ["crash_retry", STALE]]
    deaths = "SELECT count(*) FROM events WHERE kind = 'worker.dead'"
    assert facts(database, deaths) == [[1]]
    for one in processes:
        one.killed()
