"""heal, recovery_stats, reclaim_stale: what they do, what they say, and that the two agree."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast import Outlast, RecoveryStats
from outlast.testing import ManualClock
from tests.healing.stage import Holder, add_lock, crashed_holder, lock_names, moves_to_another_host
from tests.store.hand import Hand, everything
from tests.support.foreign import assert_sound

FIGURES = ("entries_reclaimed", "entries_failed", "dead_workers", "locks_cleaned")


def figures(stats: RecoveryStats) -> tuple[object, ...]:
    return tuple(getattr(stats, name) for name in FIGURES)


def a_bit_of_everything(
    app: Outlast, clock: ManualClock, hand: Hand, stack: ExitStack, poison_max: int = 0
) -> None:
    """Tasks of the dead, of the silent and of the living; budgets spent and not; locks of each."""
    ids = [f"t{n}" for n in range(8)]
    app.enqueue_many("work", range(8), id=ids)
    hand.run("UPDATE tasks SET max_recoveries = ? WHERE id IN ('t1', 't3')", poison_max)
    near = stack.enter_context(Holder(app.path, "near"))
    assert near.claims(2, lease="1h") == ["t0", "t1"]
    far = stack.enter_context(Holder(app.path, "far"))
    assert far.claims(lease="1h") == ["t2"]
    assert [one.task_id for one in app.claim("late", limit=2, lease="1m")] == ["t3", "t4"]
    assert [one.task_id for one in app.claim("well", lease="1h")] == ["t5"]
    for name, seconds, pid in (
        ("of the dead", 3600, near.pid),
        ("over and of the dead", 60, near.pid),
        ("over", 60, os.getpid()),
        ("stands", 3600, os.getpid()),
    ):
        add_lock(hand, name, clock, seconds, pid)
    near.kill()
    moves_to_another_host(app.path, far.pid)
    clock.advance("101s")


@pytest.mark.proves("HEAL-14")
def test_heal_says_what_it_did(app: Outlast, clock: ManualClock, hand: Hand) -> None:
    with ExitStack() as stack:
        a_bit_of_everything(app, clock, hand, stack)
        before = hand.value("SELECT max(pos) FROM transitions")
        stats = app.heal()
        assert figures(stats) == (3, 2, ("near", "far"), 3)
        assert stats.recovery_timestamp.timestamp() * 1000 == clock.now().utc_ms
        moved = "SELECT to_status, count(*) FROM transitions WHERE pos > ? GROUP BY 1 ORDER BY 1"
        assert hand.rows(moved, before) == [("failed", 2), ("pending", 3)]
        dead = "SELECT name FROM workers WHERE state = 'dead' ORDER BY seq"
        assert hand.rows(dead) == [("near",), ("far",)]
        assert lock_names(hand) == ["stands"]
        assert [task.id for task in app.tasks("running")] == ["t5"]
    assert_sound(app.path)


@pytest.mark.proves("HEAL-15")
def test_a_dry_run_tells_the_figures_of_the_real_run_and_changes_nothing(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    with ExitStack() as stack:
        a_bit_of_everything(app, clock, hand, stack)
        before = everything(hand)
        dry = app.recovery_stats()
        assert everything(hand) == before
        real = app.heal()
        assert (dry.is_dry_run, real.is_dry_run) == (True, False)
        assert figures(dry) == figures(real) == (3, 2, ("near", "far"), 3)
        assert dry.recovery_timestamp == real.recovery_timestamp
        assert figures(app.recovery_stats()) == (0, 0, (), 0)


@pytest.mark.proves("HEAL-15")
@pytest.mark.parametrize("opens", ["heal", "recover"])
def test_a_dry_run_of_one_that_only_looks_tells_what_opening_will_do(
    make_app: Callable[..., Outlast], clock: ManualClock, hand: Hand, app: Outlast, opens: str
) -> None:
    with ExitStack() as stack:
        a_bit_of_everything(app, clock, hand, stack)
        another = make_app()
        dry = another.recovery_stats()
        if opens == "heal":
            assert figures(another.heal()) == figures(dry)
        else:
            report = another.recover()
            dead = tuple(one.worker for one in report.dead_workers)
            done = (report.tasks_put_back, report.tasks_failed, dead, report.locks_freed)
            assert done == figures(dry)


@pytest.mark.parametrize("action", ["retry", "pending", "fail", "none"])
def test_the_dry_run_agrees_whatever_the_action(
    make_app: Callable[..., Outlast], clock: ManualClock, hand: Hand, action: str
) -> None:
    other = {"none": "retry"}.get(action, "none")
    app = make_app(recovery_action=action, recovery_action_by_kind={"other": other})
    with ExitStack() as stack:
        a_bit_of_everything(app, clock, hand, stack)
        hand.run("UPDATE tasks SET kind = 'other' WHERE id IN ('t0', 't4')")
        assert figures(app.recovery_stats()) == figures(app.heal())


@pytest.mark.proves("HEAL-17")
def test_a_second_pass_returns_zeros_and_changes_nothing(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    with ExitStack() as stack:
        a_bit_of_everything(app, clock, hand, stack)
        app.heal()
        before = everything(hand)
        assert figures(app.heal()) == (0, 0, (), 0)
        assert app.reclaim_stale(0) == 0
        assert everything(hand) == before


@pytest.mark.proves("HEAL-10")
@pytest.mark.parametrize("how", ["crash", "expiry"])
def test_a_healed_task_is_pending_unheld_and_dated_and_otherwise_as_it_was(
    app: Outlast, clock: ManualClock, hand: Hand, how: str
) -> None:
    app.enqueue("work", {"n": 1}, id="t", priority=3, group="g")
    fresh = hand.task("t")
    if how == "crash":
        with crashed_holder(app.path, ["t"]):
            clock.advance("10s")
            app.heal()
    else:
        app.claim("w", lease="10s")
        clock.advance("10s")
        app.heal()
    healed = hand.task("t")
    changed = {name: healed[name] for name in fresh if healed[name] != fresh[name]}
    error = changed.pop("error")
    assert "worker w" in error
    assert changed == {
        "attempt": 1,
        "recovery_count": 1,
        "crashes_in_row": 1,
        "token": healed["token"],
        "last_worker_id": "w",
        "started_at": fresh["created_at"],
        "state_changed_at": clock.now().utc_ms,
    }


@pytest.mark.proves("HEAL-09")
def test_each_finding_is_told_with_task_or_lock_holder_and_age(
    app: Outlast, clock: ManualClock, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """A death is one warning, however many tasks it took along; each of them is told beside."""
    caplog.set_level(logging.INFO, "outlast.heal")
    app.enqueue_many("work", range(2), id=["t1", "t2"])
    with Holder(app.path, "gone") as holder:
        assert holder.claims(lease="1h") == ["t1"]
        app.claim("slow", lease="20s")
        add_lock(hand, "merge", clock, 20, None)
        clock.advance("25s")
        holder.kill()
        app.heal()
    told = [(one.levelname, one.getMessage()) for one in caplog.records if "heal" in one.name]
    assert [level for level, _ in told] == ["INFO", "WARNING", "WARNING", "WARNING"]
    crashed, died, expired, lock = (message for _, message in told)
    assert crashed.startswith("task t1 of worker gone, 25.0 s after its last sign of life")
    assert died.startswith(f"worker gone (pid {holder.pid}) is dead")
    assert expired.startswith("task t2 of worker slow, 25.0 s after its last sign of life")
    assert lock == "lock merge of worker w ran out 5.0 s ago"


@pytest.mark.proves("HEAL-16")
def test_reclaiming_takes_what_was_silent_for_so_long_and_has_run_out(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("work", id="long ago")
    app.claim("w", lease="10s")
    clock.advance("5000s")
    add_lock(hand, "over", clock, 0, None)
    assert app.reclaim_stale(10_000) == 0
    assert lock_names(hand) == []
    assert app.get("long ago").status == "running"
    assert app.reclaim_stale(5000) == 1
    task = app.get("long ago")
    assert (task.status, task.state_changed_at.timestamp() * 1000) == (
        "pending",
        clock.now().utc_ms,
    )


@pytest.mark.proves("HEAL-16")
def test_only_by_force_are_live_leases_reclaimed(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(3))
    leases = app.claim("w", limit=3, lease="1h")
    clock.advance("60s")
    leases[0].renew()
    assert app.reclaim_stale(0) == 0
    assert app.reclaim_stale(10_000, force=True) == 0
    assert app.reclaim_stale(60, force=True) == 2
    assert app.counts()["running"] == 1
    assert app.reclaim_stale("0s", force=True) == 1
    assert {task.error for task in app.tasks("pending")} == {
        "the lease of worker w was taken away by user"
    }
    assert app.reclaim_stale(0, force=True) == 0


@pytest.mark.proves("HEAL-24")
@pytest.mark.parametrize(
    "missing", ["holder", "started_at", "lease_expires_at", "lease_expires_mono_ms"]
)
def test_a_running_row_that_lacks_holder_start_or_expiry_is_taken_back(
    make_app: Callable[..., Outlast], clock: ManualClock, hand: Hand, database: Path, missing: str
) -> None:
    """No row of ours can be like that; old ones, and those of foreign hands, can."""
    app = make_app()
    app.enqueue("work", id="t")
    with Holder(database) as holder:
        assert holder.claims(lease="1h") == ["t"]
        hand.connection.pragma("ignore_check_constraints", "ON")
        assert hand.run(f"UPDATE tasks SET {missing} = NULL WHERE id = 't'") == 1
        assert [one.orphaned for one in app.recovery_plan()] == ["no_holder"]
        assert figures(app.recovery_stats()) == (1, 0, (), 0)
        assert app.heal().entries_reclaimed == 1
        assert app.get("t").status == "pending"
    assert_sound(database)
