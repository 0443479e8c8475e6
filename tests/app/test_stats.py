"""The three monitoring queries of the schema seed, as stats() answers them."""

import pytest

from outlast import CheckpointFigures, LeaseFigures, Outlast, Status, TaskFigures
from outlast.testing import ManualClock


@pytest.mark.proves("OBS-13")
def test_tasks_are_counted_by_kind_and_status_with_their_mean_age_in_hours(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("mail", id="old")
    clock.advance("3h")
    app.enqueue("mail", id="young")
    app.enqueue("scan", id="done", priority=9)
    (lease,) = app.claim("w")
    clock.advance("30m")
    lease.complete()
    app.enqueue("scan", id="new", delay="1h")
    stats = app.stats()
    assert stats.at.timestamp() * 1000 == clock.now().utc_ms
    assert stats.tasks == (
        TaskFigures("mail", Status.PENDING, 2, 2.0),
        TaskFigures("scan", Status.COMPLETED, 1, 0.5),
        TaskFigures("scan", Status.PENDING, 1, 0.0),
    )


@pytest.mark.proves("OBS-14")
def test_leases_are_stale_after_two_minutes_without_a_beat(
    app: Outlast, clock: ManualClock
) -> None:
    assert app.open().stats().leases == LeaseFigures(0, 0, None)
    app.enqueue_many("work", range(3))
    silent, beating, _ = app.claim("w", limit=3, lease="1h")
    clock.advance("2m")
    assert app.stats().leases == LeaseFigures(3, 0, 2.0)
    clock.advance("1ms")
    beating.renew()
    stats = app.stats().leases
    assert (stats.active, stats.stale) == (3, 2)
    assert stats.mean_minutes_since_beat == pytest.approx(2 * (2 + 1 / 60_000) / 3)
    silent.complete()
    assert app.stats().leases.active == 2


@pytest.mark.proves("OBS-15")
def test_the_ten_tasks_with_most_checkpoints_are_shown_the_biggest_first(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(12), id=[f"t{n:02}" for n in range(12)], group="g")
    began = clock.now().utc_ms
    for n, lease in enumerate(app.claim("w", limit=12)):
        for _ in range(n):
            lease.checkpoint("manual_checkpoint", {})
            clock.advance("1s")
    found = app.stats().checkpoints
    assert [(one.task_id, one.count) for one in found] == [
        (f"t{n:02}", n) for n in range(11, 1, -1)
    ]
    first = found[0]
    assert isinstance(first, CheckpointFigures)
    assert (first.group, first.last_sequence) == ("g", 11)
    written_before = sum(range(11))
    assert first.first_at.timestamp() * 1000 == began + written_before * 1000
    assert (first.last_at - first.first_at).total_seconds() == 10


def test_workers_that_went_silent_are_named(app: Outlast, clock: ManualClock) -> None:
    app.heartbeat("silent")
    clock.advance("60s")
    app.heartbeat("beating")
    clock.advance("30s")
    assert app.stats().silent_workers == ()
    clock.advance("1ms")
    assert app.stats().silent_workers == ("silent",)
