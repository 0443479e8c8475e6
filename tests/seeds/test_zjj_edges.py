"""zjj's edge and error cases of healing, its five failure scenarios, and its promises by number."""

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from outlast import DatabaseError, LeaseLost, Outlast, Settings
from outlast.clock import Instant
from outlast.store.access import Access
from outlast.store.ops.recovery.orphans import leases_ran_out
from outlast.testing import ManualClock
from tests.seeds.crashing import copy_of, crash, facts
from tests.store.hand import Hand
from tests.store.trace import Trace
from tests.support.recovery_validator import validated

TIMEOUT_SECONDS = 300


@pytest.fixture
def by_hand(make_app: Callable[..., Outlast]) -> Outlast:
    """Nothing heals by itself."""
    return make_app(heal_at_claim=False, detection_interval_seconds=0)


# Boundary times


@pytest.mark.proves("TST-27")
@pytest.mark.parametrize(
    ("after_seconds", "is_stale"), [(299.999, False), (300.0, True), (300.001, True)]
)
def test_boundary_of_a_lease(
    by_hand: Outlast, clock: ManualClock, after_seconds: float, is_stale: bool
) -> None:
    """One rule for lock and lease: at the very end of its time it has run out."""
    by_hand.enqueue("merge")
    by_hand.claim("agent-1")
    clock.advance(after_seconds)
    assert by_hand.recovery_stats().entries_reclaimed == int(is_stale)
    assert by_hand.heal().entries_reclaimed == int(is_stale)


@pytest.mark.proves("TST-27")
@pytest.mark.parametrize(
    ("after_seconds", "is_stale"), [(299.999, False), (300.0, True), (300.001, True)]
)
def test_boundary_of_a_processing_lock(
    by_hand: Outlast, clock: ManualClock, hand: Hand, after_seconds: float, is_stale: bool
) -> None:
    """The seed left open what holds at equality."""
    assert by_hand.lock(holder="agent-1").acquire()
    clock.advance(after_seconds)
    assert by_hand.recovery_stats().locks_cleaned == int(is_stale)
    assert by_hand.heal().locks_cleaned == int(is_stale)
    assert hand.value("SELECT count(*) FROM queue_processing_lock") == int(not is_stale)


@pytest.mark.proves("TST-27")
def test_post_1_4_the_threshold_is_the_timeout_of_300_seconds_and_configurable(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    assert Settings().lease_seconds == TIMEOUT_SECONDS
    app = make_app(lease_seconds=20, heartbeat_interval_seconds=5)
    app.enqueue("merge")
    app.claim("agent-1")
    clock.advance("19.999s")
    assert app.heal().entries_reclaimed == 0
    clock.advance("0.001s")
    assert app.heal().entries_reclaimed == 1


# NULLs


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose process was killed with one entry in hand; only to be copied."""
    database = tmp_path_factory.mktemp("crashed") / "work.db"
    with Outlast(database) as app:
        app.enqueue("merge", id="e", group="bd-2i5", priority=7)
    assert crash(database, "agent-1") == ["e"]
    return database


NULLS = {
    "no holder": "holder = NULL",
    "no agent": "worker_id = NULL",
    "no start": "lease_acquired_at = NULL, heartbeat_at = NULL",
    "no expiry": "lease_expires_at = NULL, lease_expires_mono_ms = NULL",
    "nothing": "holder = NULL, worker_id = NULL, lease_acquired_at = NULL, heartbeat_at = NULL,"
    " lease_expires_at = NULL, lease_expires_mono_ms = NULL",
}


@pytest.mark.proves("TST-27")
@pytest.mark.parametrize("missing", NULLS)
def test_nulls_in_a_claimed_entry(template: Path, tmp_path: Path, missing: str) -> None:
    """INV-2.1: constraints forbid them; a hand that went around those leaves nothing stuck."""
    database = copy_of(template, tmp_path)
    with closing(Hand(database)) as hand:
        triggers = hand.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        for name, _ in triggers:
            hand.run(f'DROP TRIGGER "{name}"')
        hand.connection.pragma("ignore_check_constraints", 1)
        hand.run(f"UPDATE tasks SET {NULLS[missing]}")
        for _, text in triggers:
            hand.run(text)
    with validated(database), Outlast(database) as app:
        assert (app.get("e").status, app.get("e").recovery_count) == ("pending", 1)
        assert (app.get("e").group, app.get("e").priority) == ("bd-2i5", 7)
        assert [lease.attempt for lease in app.claim("agent-2")] == [2]


# A database error inside healing


@pytest.mark.proves("TST-27")
def test_a_database_error_inside_healing_does_not_stop_the_claim(
    app: Outlast, clock: ManualClock, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """POST-7.1, POST-7.2: it goes on to what is pending, with one warning and no error.

    The view that healing reads is gone for a while; a call of heal() itself says so.
    """
    app.enqueue_many("merge", range(2), id=["stale", "pending"])
    app.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)
    view = hand.value("SELECT sql FROM sqlite_schema WHERE name = 'task_situations'")
    hand.run("DROP VIEW task_situations")
    (lease,) = app.claim("agent-2")
    assert lease.task_id == "pending"
    warnings = [one for one in caplog.messages if "healing before a claim failed" in one]
    assert len(warnings) == 1
    with pytest.raises(DatabaseError, match="task_situations"):
        app.heal()
    hand.run(view)
    assert lease.complete()
    clock.advance("1s")
    assert [one.task_id for one in app.claim("agent-2")] == ["stale"], "healed once it can be"


# The lock is absent


@pytest.mark.proves("TST-27")
def test_without_a_lock_there_is_nothing_stale(app: Outlast) -> None:
    """No lock is not a stale lock."""
    app.open()
    told, done = app.recovery_stats(), app.heal()
    assert (told.locks_cleaned, told.entries_reclaimed, told.dead_workers) == (0, 0, ())
    assert (done.locks_cleaned, done.entries_reclaimed, done.dead_workers) == (0, 0, ())


# The clock goes back


@pytest.mark.proves("TST-27")
@pytest.mark.parametrize("step_seconds", [-86_400, 86_400])
def test_a_wall_clock_that_is_set_neither_prolongs_nor_shortens_a_claim(
    app: Outlast, clock: ManualClock, hand: Hand, step_seconds: int
) -> None:
    """Set back, the seed's entry would have been stuck for a day; set forward, given away."""
    app.enqueue("merge", id="e")
    app.claim("agent-1")
    assert app.lock(holder="agent-1").acquire()
    clock.step_utc(step_seconds)
    clock.advance("299.999s")
    assert app.claim("agent-2") == []
    assert hand.value("SELECT count(*) FROM locks") == 1
    clock.advance("1.001s")
    assert [lease.task_id for lease in app.claim("agent-2")] == ["e"]
    assert hand.value("SELECT count(*) FROM locks") == 0


# The five failure scenarios


def _killed_with_its_lock(app: Outlast, clock: ManualClock) -> None:
    """FS-1, FS-2: killed while it holds the processing lock."""
    _crash_with_lock(app, clock)


def _cut_off(app: Outlast, clock: ManualClock) -> None:
    """FS-3: a partition. It lives elsewhere, and nothing is heard of it."""
    _crash_with_lock(app, clock)
    _change_workers(app, "host = 'far', boot_id = 'another', lock_file = 'none'")
    clock.advance("100.001s")


def _machine_lost(app: Outlast, clock: ManualClock) -> None:
    """FS-4: the machine went down with it; nothing of this boot is comparable with its rows."""
    _crash_with_lock(app, clock)
    _change_workers(app, "boot_id = 'the boot before', beat_mono_ms = 2000000000")


def _time_passed(app: Outlast, clock: ManualClock) -> None:
    """FS-5: it lives and is silent, and the time of lock and claim has passed."""
    app.claim("agent-1")
    assert app.lock(holder="agent-1").acquire()
    clock.advance(TIMEOUT_SECONDS)


def _crash_with_lock(app: Outlast, clock: ManualClock) -> None:
    assert crash(app.path, "agent-1", clock=clock, lock="default") == ["e"]
    assert facts(app.path, "SELECT count(*) FROM locks") == [[1]]


def _change_workers(app: Outlast, change: str) -> None:
    with closing(Hand(app.path)) as hand:
        hand.run(f"UPDATE workers SET {change} WHERE name = 'agent-1'")


@pytest.mark.parametrize("fail", [_killed_with_its_lock, _cut_off, _machine_lost, _time_passed])
def test_fs_1_to_fs_5_the_entry_and_the_lock_are_free_again_after_each_failure(
    app: Outlast, clock: ManualClock, fail: Callable[[Outlast, ManualClock], None]
) -> None:
    """A claim is all that is needed."""
    app.enqueue("merge", id="e")
    fail(app, clock)
    with validated(app.path):
        (lease,) = app.claim("agent-2")
    assert (lease.task_id, lease.attempt) == ("e", 2)
    assert facts(app.path, "SELECT count(*) FROM locks") == [[0]]
    assert lease.complete()


# Promises by number


def test_post_5_3_each_act_of_healing_is_on_record(by_hand: Outlast, clock: ManualClock) -> None:
    """Who did it, why, to whom, and when."""
    by_hand.enqueue("merge", id="e")
    by_hand.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)
    by_hand.heal()
    move = by_hand.history("e")[-1]
    assert (move.actor, move.reason) == ("system/recovery", "lease_expired_retry")
    assert move.error == "the lease of worker agent-1 ran out"
    assert move.at.timestamp() * 1000 == clock.now().utc_ms


def test_post_1_3_a_stale_entry_is_logged_with_holder_and_age(
    by_hand: Outlast, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    by_hand.enqueue("merge", id="e")
    by_hand.claim("agent-1")
    clock.advance("310s")
    by_hand.heal()
    (record,) = [one for one in caplog.records if one.getMessage().startswith("task e ")]
    assert record.levelno == logging.WARNING
    assert "of worker agent-1, 310.0 s after its last sign of life" in record.getMessage()


def test_inv_4_1_healing_twice_equals_healing_once(by_hand: Outlast, clock: ManualClock) -> None:
    by_hand.enqueue_many("merge", range(3))
    by_hand.claim("agent-1", limit=3)
    clock.advance(TIMEOUT_SECONDS)
    assert [by_hand.heal().entries_reclaimed for _ in range(3)] == [3, 0, 0]


def test_inv_1_1_a_renewal_between_looking_and_healing_wins(
    by_hand: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look found the lease over; by the time of the write it had been renewed."""
    by_hand.enqueue("merge", id="e")
    (lease,) = by_hand.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)

    def renewed_meanwhile(access: Access, now: Instant) -> bool:
        found = leases_ran_out(access, now)
        lease.renew()
        return found

    monkeypatch.setattr("outlast.store.ops.recovery.healer.leases_ran_out", renewed_meanwhile)
    assert by_hand.heal().entries_reclaimed == 0
    assert lease.complete()


def test_perf_1_a_claim_with_nothing_stale_only_reads_to_heal(
    trace: Trace, app: Outlast, clock: ManualClock
) -> None:
    """PERF-2: the seed wrote twice at each try to claim."""
    assert app.claim("agent-1") == []
    clock.advance("2s")
    with trace.listening() as ran:
        assert app.claim("agent-1") == []
    assert any("task_situations" in one.text for one in ran), "it looked"
    words = ("INSERT", "UPDATE", "DELETE", "BEGIN IMMEDIATE")
    assert [one.text for one in ran if one.text.lstrip().startswith(words)] == []


def test_inv_3_2_only_the_newest_of_two_claims_can_finish(app: Outlast, clock: ManualClock) -> None:
    """An expired claim is free for others, and its holder may still be at work."""
    app.enqueue("merge", id="e")
    (first,) = app.claim("agent-1")
    clock.advance(TIMEOUT_SECONDS)
    (second,) = app.claim("agent-1")
    assert second.token > first.token
    for write in (first.renew, first.complete, first.release):
        with pytest.raises(LeaseLost):
            write()
    assert second.complete()
    assert second.complete() is False, "INV-4.3: once more is no error"
