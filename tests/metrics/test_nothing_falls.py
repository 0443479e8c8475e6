"""Counters and histograms between two scrapes: whatever happens to the rows, nothing falls."""

from collections.abc import Callable
from typing import Any

import pytest

from outlast import Lease, Outlast
from outlast.store.ops import recovery_runs
from outlast.testing import ManualClock
from outlast_lab.inside import store_of
from tests.metrics.reading import assert_none_fell, count_of, value_of

WAIT = "outlast_wait_seconds"
RUNS = "outlast_recovery_duration_seconds"


def _fails(app: Outlast, lease: Lease) -> None:
    lease.fail("try again", retry=True)


def _is_released(app: Outlast, lease: Lease) -> None:
    lease.release()


def _is_forced(app: Outlast, lease: Lease) -> None:
    app.force(lease.task_id, "pending", by="ada")


@pytest.mark.parametrize("comes_back", [_fails, _is_released, _is_forced])
def test_the_wait_of_a_delayed_task_stays_what_it_was_when_the_task_comes_back(
    app: Outlast, clock: ManualClock, comes_back: Callable[[Outlast, Lease], None]
) -> None:
    """Coming back gives the task another time before which it does not run, or none."""
    app.enqueue("late", delay="1h")
    clock.advance(3602)
    (lease,) = app.claim("w")
    before = app.metrics()
    (waited,) = before[WAIT]["samples"]
    assert (waited["sum"], waited["count"]) == (2, 1)
    comes_back(app, lease)
    assert_none_fell(before, app.metrics())
    assert app.metrics()[WAIT]["samples"] == [waited]
    clock.advance("1d")
    (lease,) = app.claim("w")
    lease.complete()
    store_of(app).fold_metrics(least=1)
    assert app.metrics()[WAIT]["samples"] == [waited]


def test_the_wait_of_a_delayed_task_that_was_let_go_early_counts_from_its_enqueue(
    app: Outlast, clock: ManualClock
) -> None:
    task = app.enqueue("late", delay="1h")
    app.park(task.id, "hold")
    app.unpark(task.id)
    clock.advance(7)
    app.claim("w")
    (waited,) = app.metrics()[WAIT]["samples"]
    assert waited["sum"] == 7


def test_each_of_a_batch_of_delayed_tasks_has_its_own_wait(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("now")
    app.enqueue_many("late", range(3), delay=10)
    clock.advance(14)
    for lease in app.claim("w", limit=10):
        lease.release()
    assert {
        one["labels"]["kind"]: (one["sum"], one["count"]) for one in app.metrics()[WAIT]["samples"]
    } == {"now": (14, 1), "late": (12, 3)}


def test_runs_that_are_forgotten_stay_counted(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_runs, "RUNS_KEPT", 2)
    app.open()
    before: dict[str, Any] = app.metrics()
    for _ in range(5):
        app.recover()
        after = app.metrics()
        assert_none_fell(before, after)
        before = after
    assert count_of(before, RUNS) == 6


def test_a_queue_of_more_kinds_than_have_names_is_counted_whole(app: Outlast) -> None:
    for number in range(510):
        app.enqueue(f"kind-{number}", queue="crowded")
    found = app.metrics()
    assert value_of(found, "outlast_queue_depth", queue="crowded") == 510
    assert value_of(found, "outlast_queue_depth") == 510
    oldest = found["outlast_queue_oldest_ready_seconds"]["samples"]
    assert [one["labels"] for one in oldest] == [{"queue": "crowded"}]
    assert len(found["outlast_tasks"]["samples"]) <= 501
