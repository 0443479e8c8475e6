from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from outlast import InvalidInput, LeaseLost, Outlast
from outlast.testing import ManualClock
from tests.store.hand import Hand


@pytest.mark.proves("CLM-03")
def test_a_lease_is_as_long_as_the_claim_the_kind_or_the_default_says(
    make_app: Callable[..., Outlast],
) -> None:
    app = make_app(lease_seconds=100, lease_seconds_by_kind={"slow": 200})
    app.enqueue_many("slow", range(2))
    app.enqueue_many("quick", range(2))
    by_settings = app.claim("w", limit=1, kinds=["slow"]) + app.claim("w", kinds=["quick"])
    by_claim = app.claim("w", limit=2, lease="7s")
    for lease, seconds in zip(by_settings + by_claim, (200, 100, 7, 7), strict=True):
        task = app.get(lease.task_id)
        assert task.lease_expires_at is not None
        assert task.lease_acquired_at is not None
        assert task.lease_expires_at - task.lease_acquired_at == timedelta(seconds=seconds)
        assert lease.lease_ms == seconds * 1000


@pytest.mark.proves("CLM-03", "CFG-04")
def test_a_lease_is_five_minutes_unless_told_otherwise(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w1")
    assert lease.lease_ms == 300_000
    clock.advance("299.999s")
    assert app.claim("w2") == []
    clock.advance("1ms")
    assert [again.task_id for again in app.claim("w2")] == ["t1"]


def test_one_claim_may_hand_out_leases_of_different_lengths(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(lease_seconds=100, lease_seconds_by_kind={"slow": 200})
    app.enqueue("slow", id="slow")
    app.enqueue("quick", id="quick")
    app.claim("w", limit=2)
    clock.advance("100s")
    assert app.heal().entries_reclaimed == 1
    assert (app.get("slow").status, app.get("quick").status) == ("running", "pending")


@pytest.mark.proves("CLM-05")
def test_renewing_keeps_the_lease_by_its_own_length(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w1", lease="10s")
    for _ in range(5):
        clock.advance("9s")
        lease.renew(stage="page 3")
        assert app.claim("w2") == []
    assert app.get("t1").stage == "page 3"
    clock.advance("10s")
    assert len(app.claim("w2")) == 1


@pytest.mark.proves("CLM-06")
def test_a_stolen_lease_says_so_at_the_next_renewal_and_can_only_be_abandoned(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    (stolen,) = app.claim("w1", lease="10s")
    clock.advance("10s")
    (current,) = app.claim("w2")
    before = app.get("t1")
    writes: list[Callable[[], Any]] = [
        stolen.renew,
        stolen.complete,
        stolen.release,
        lambda: stolen.fail("late"),
        lambda: stolen.park("event"),
        lambda: stolen.checkpoint("manual_checkpoint", 1),
        lambda: app.complete_many([(stolen, "late")]),
    ]
    for write in writes:
        with pytest.raises(LeaseLost) as lost:
            write()
        assert lost.value.task_ids == ("t1",)
    assert app.get("t1") == before
    assert current.token > stolen.token
    assert current.complete("mine")


@pytest.mark.proves("CLM-07")
def test_a_worker_that_wakes_up_late_may_finish_what_nobody_took(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w1", lease="10s")
    clock.advance("1h")
    assert app.get("t1").status == "running"
    assert lease.complete("late but welcome")


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker": ""},
        {"worker": None},
        {"limit": 0},
        {"limit": -1},
        {"limit": 10_001},
        {"limit": True},
        {"limit": 1.0},
        {"queue": ""},
        {"queue": []},
        {"queue": ["a", ""]},
        {"kinds": "work"},
        {"kinds": [""]},
        {"kinds": [f"k{n}" for n in range(201)]},
        {"group": ""},
        {"lease": 0},
        {"lease": "soon"},
        {"lease": -1},
    ],
    ids=str,
)
def test_a_wrong_claim_is_refused_and_takes_nothing(app: Outlast, wrong: dict[str, Any]) -> None:
    app.enqueue("work")
    with pytest.raises(InvalidInput):
        app.claim(**({"worker": "w"} | wrong))
    assert app.counts()["pending"] == 1


def test_no_kinds_is_no_work_and_doubles_count_once(app: Outlast) -> None:
    app.enqueue_many("work", range(3))
    assert app.claim("w", kinds=[]) == []
    assert app.take(kinds=[]) == []
    assert len(app.claim("w", limit=9, kinds=["work", "work"], queue=["default"] * 2)) == 3


def test_a_claim_that_comes_up_short_takes_back_what_ran_out_in_the_same_call(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(4), id=["a", "b", "c", "d"])
    app.claim("gone", limit=2, lease="1s")
    clock.advance("900ms")
    assert [lease.task_id for lease in app.claim("w", limit=1)] == ["c"]
    clock.advance("100ms")
    assert {lease.task_id for lease in app.claim("w", limit=9)} == {"a", "b", "d"}


def test_healing_at_claim_can_be_switched_off(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_at_claim=False)
    app.enqueue("work")
    app.claim("w1", lease="1s")
    clock.advance("1h")
    assert app.claim("w2") == []
    assert app.heal().entries_reclaimed == 1
    assert len(app.claim("w2")) == 1


@pytest.mark.proves("QUE-27")
def test_a_take_is_an_explicit_call_that_says_it_is_lossy(app: Outlast, clock: ManualClock) -> None:
    assert "LOSSY" in (Outlast.take.__doc__ or "")
    app.enqueue_many("work", [1, 2, 3])
    assert [task.payload for task in app.take(2)] == [1, 2]
    clock.advance("1d")
    assert app.heal().entries_reclaimed == 0
    assert app.counts()["pending"] == 1


def test_a_lease_shows_its_task_and_hides_the_payload(app: Outlast) -> None:
    app.enqueue("work", {"secret": "s3cr3t"}, id="t1", group="g", queue="q")
    (lease,) = app.claim("w", queue="q")
    assert (lease.kind, lease.queue, lease.group) == ("work", "q", "g")
    assert (lease.attempt, lease.token) == (1, 1)
    assert "t1" in repr(lease)
    assert "s3cr3t" not in repr(lease)
    lease.payload["secret"] = "changed"
    assert lease.payload == {"secret": "s3cr3t"}


@pytest.mark.parametrize("stage", ["pending", "Completed", "failed", "cancelled", "processed"])
def test_a_stage_is_no_word_for_a_task_that_does_not_run(app: Outlast, stage: str) -> None:
    """Guards the seed's view, which shows the stage as the status of what runs."""
    app.enqueue("work")
    (lease,) = app.claim("w")
    with closing(Hand(app.path)) as hand:
        with pytest.raises(InvalidInput, match="which is the word for a task that does not run"):
            lease.renew(stage=stage)
        assert hand.value("SELECT status FROM merge_queue") == "claimed"
        lease.renew(stage="testing")
        assert hand.value("SELECT status FROM merge_queue") == "testing"
