"""A lease that ran out: one recipe, one transaction, and a checkpoint that tells of it."""

from collections.abc import Callable
from typing import Any

import apsw
import pytest

from outlast import DatabaseError, Outlast
from outlast.testing import ManualClock
from tests.healing.stage import crashed_holder
from tests.store.hand import Hand, store_of

ROW = (
    "SELECT status, holder, worker_id, lease_acquired_at, lease_expires_at,"
    " lease_expires_mono_ms, heartbeat_at FROM tasks WHERE id = 't'"
)


def run_out(app: Outlast, clock: ManualClock) -> None:
    (lease,) = app.claim("w", lease="10s")
    assert lease.task_id == "t"
    clock.advance("10s")
    app.heal()


@pytest.mark.proves("HEAL-21")
def test_an_expired_lease_is_recorded_cleared_and_charged_and_its_task_goes_back(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("work", id="t")
    run_out(app, clock)
    assert hand.row(ROW) == ("pending", *[None] * 6)
    task, move = app.get("t"), app.history("t")[-1]
    assert (task.attempt, task.recovery_count, task.retry_count) == (1, 1, 0)
    assert (move.from_status, move.to_status, move.reason) == (
        "running",
        "pending",
        "lease_expired_retry",
    )
    assert (move.actor, move.worker) == ("system/recovery", "w")
    assert task.error == move.error == "the lease of worker w ran out"


@pytest.mark.proves("HEAL-21")
def test_without_budget_it_fails_and_its_error_names_the_expiry(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("work", id="t")
    for _ in range(4):
        run_out(app, clock)
    assert hand.row(ROW) == ("failed", *[None] * 6)
    task, move = app.get("t"), app.history("t")[-1]
    assert (task.attempt, task.recovery_count) == (4, 3)
    assert (move.to_status, move.reason) == ("failed", "max_retries_exceeded")
    assert task.error is not None
    assert "lost 4 of 4 times" in task.error
    assert "the lease of worker w ran out" in task.error


@pytest.mark.proves("HEAL-22")
@pytest.mark.parametrize("action", ["retry", "pending", "fail"])
def test_each_expiry_leaves_an_error_boundary_with_its_cause_and_number(
    make_app: Callable[..., Outlast], clock: ManualClock, action: str
) -> None:
    app = make_app(recovery_action=action)
    app.enqueue("work", id="t")
    times = 1 if action == "fail" else 4
    for n in range(1, times + 1):
        run_out(app, clock)
        written = app.checkpoints("t", "error_boundary")
        assert [one.data["retry"] for one in written] == list(range(1, n + 1))
    assert app.get("t").status == "failed"
    found = app.checkpoints("t")
    assert found[-1].data == {
        "cause": "lease_expired",
        "error": "the lease of worker w ran out",
        "retry": times,
        "limit": 3,
    }
    assert [one.sequence_number for one in found] == list(range(1, times + 1))


@pytest.mark.proves("HEAL-22")
def test_an_error_boundary_is_numbered_on_from_what_the_attempt_had_written(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t", group="g")
    (lease,) = app.claim("w", lease="10s")
    lease.checkpoint("iteration_end", {"n": 1})
    clock.advance("10s")
    app.heal()
    first, boundary = app.checkpoints("t")
    assert (first.type, boundary.type) == ("iteration_end", "error_boundary")
    assert (boundary.sequence_number, boundary.attempt, boundary.group) == (2, 1, "g")
    assert boundary.created_at.timestamp() * 1000 == clock.now().utc_ms


@pytest.mark.proves("HEAL-21")
def test_expiry_checkpoint_and_move_are_one_transaction(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, hand: Hand
) -> None:
    """What fails after the boundary is written takes it along."""

    def fails(*arguments: object, **options: object) -> None:
        raise apsw.IOError("not today")

    app.enqueue("work", id="t")
    app.claim("w", lease="10s")
    clock.advance("10s")
    before = hand.row(ROW)
    with monkeypatch.context() as broken:
        broken.setattr("outlast.store.ops.recovery.orphan_batches.move_alike", fails)
        with pytest.raises(DatabaseError, match="not today"):
            app.heal()
    assert (hand.row(ROW), app.checkpoints("t")) == (before, [])
    assert [str(move.to_status) for move in app.history("t")] == ["running"]
    app.heal()
    assert len(app.checkpoints("t")) == 1


def test_a_task_of_a_dead_worker_gets_no_boundary_for_a_lease_that_stood(app: Outlast) -> None:
    app.enqueue("work", id="t")
    with crashed_holder(app.path, ["t"]):
        app.heal()
    assert app.history("t")[-1].reason == "crash_retry"
    assert app.checkpoints("t") == []


@pytest.mark.proves("HEAL-11")
def test_a_task_of_twenty_minutes_that_is_renewed_is_never_taken_back(
    app: Outlast, clock: ManualClock
) -> None:
    """The lease is as long as the seed's lock, and no start time makes a task stale."""
    app.enqueue("work", id="t")
    (lease,) = app.claim("w")
    assert lease.lease_ms == 300_000
    for _ in range(5):
        clock.advance("4m 59.999s")
        assert (app.recovery_stats().entries_reclaimed, app.heal().entries_reclaimed) == (0, 0)
        assert app.reclaim_stale(0) == 0
        lease.renew()
    assert lease.complete()
    assert app.get("t").attempt == 1


@pytest.mark.proves("HEAL-18")
@pytest.mark.parametrize("stage", ["claimed", "rebasing", "testing", None])
def test_a_task_is_taken_back_at_whatever_stage_its_holder_left_it(
    app: Outlast, clock: ManualClock, stage: str | None
) -> None:
    app.enqueue("work", id="t")
    (lease,) = app.claim("w", lease="10s")
    if stage is not None:
        lease.renew(stage=stage)
    assert app.get("t").stage == stage
    clock.advance("10s")
    assert [one.task_id for one in app.claim("next")] == ["t"]


@pytest.mark.proves("HEAL-12")
@pytest.mark.parametrize("broken", ["is_due", "heal"])
def test_healing_that_fails_is_told_once_and_the_claim_goes_on(
    app: Outlast,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
) -> None:
    def fails(*arguments: Any, **options: Any) -> Any:
        raise DatabaseError("the disk said no", apsw.IOError("no"))

    app.enqueue_many("work", range(2), id=["stale", "fresh"])
    app.claim("w", lease="10s")
    clock.advance("10s")
    monkeypatch.setattr(store_of(app).recovery, broken, fails)
    assert [one.task_id for one in app.claim("w")] == ["fresh"]
    warnings = [one for one in caplog.records if one.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "the claim goes on: the disk said no" in warnings[0].getMessage()
    assert app.claim("w") == []
    monkeypatch.undo()
    assert [one.task_id for one in app.claim("w")] == ["stale"]


@pytest.mark.proves("HEAL-26")
def test_healing_at_claim_can_be_switched_off_and_the_explicit_call_still_works(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_at_claim=False, detection_interval_seconds=0)
    app.enqueue("work", id="t")
    app.claim("w", lease="10s")
    clock.advance("1h")
    assert app.claim("next") == []
    assert app.get("t").status == "running"
    assert app.heal().entries_reclaimed == 1
    assert [one.task_id for one in app.claim("next")] == ["t"]
