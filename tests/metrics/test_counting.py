"""Which number counts what: one small history, each thing in it counted where it belongs."""

from contextlib import closing

import pytest

from outlast import LeaseLost, Outlast, PermanentError
from outlast.domain.metric_marks import BUCKETS_MS, NO_END_MS
from outlast.domain.metrics import METRICS
from outlast.testing import ManualClock
from tests.metrics.reading import count_of, value_of
from tests.store.hand import Hand


@pytest.mark.proves("OBS-10")
def test_outcomes_failures_and_retries_are_told_apart(app: Outlast) -> None:
    app.enqueue_many("mail", range(6), queue="out")
    leases = app.claim("w", limit=6, queue="out")
    leases[0].complete(1)
    leases[1].fail("try again", retry=True)
    leases[2].fail(PermanentError("never"))
    app.cancel(leases[3].task_id)
    leases[4].release()
    found = app.metrics()
    labels = {"queue": "out", "kind": "mail"}
    finished = "outlast_tasks_finished_total"
    assert value_of(found, finished, **labels, outcome="completed") == 1
    assert value_of(found, finished, **labels, outcome="failed") == 1
    assert value_of(found, finished, **labels, outcome="cancelled") == 1
    assert value_of(found, "outlast_attempts_failed_total", **labels) == 2
    assert count_of(found, "outlast_attempt_duration_seconds", **labels) == 3
    statuses = {"pending": 2, "running": 1, "completed": 1, "failed": 1, "cancelled": 1}
    for status, count in statuses.items():
        assert value_of(found, "outlast_tasks", **labels, status=status) == count, status
    assert value_of(found, "outlast_tasks_enqueued_total") == 6


def test_what_was_taken_is_finished_and_gone(app: Outlast) -> None:
    app.enqueue_many("mail", range(3))
    app.take(2)
    found = app.metrics()
    assert value_of(found, "outlast_tasks_finished_total", outcome="taken", kind="mail") == 2
    assert value_of(found, "outlast_tasks") == 1


def test_durations_and_waits_stand_in_the_bucket_they_belong_to(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("mail")
    clock.advance(3)
    (lease,) = app.claim("w")
    clock.advance(40)
    lease.complete()
    found = app.metrics()
    (wait,) = found["outlast_wait_seconds"]["samples"]
    (duration,) = found["outlast_attempt_duration_seconds"]["samples"]
    assert (wait["sum"], wait["buckets"]["2.5"], wait["buckets"]["5.0"]) == (3, 0, 1)
    assert (duration["sum"], duration["buckets"]["30.0"], duration["buckets"]["60.0"]) == (40, 0, 1)
    assert wait["buckets"]["+Inf"] == duration["buckets"]["+Inf"] == 1


def test_a_delay_that_was_asked_for_is_no_wait(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("mail", delay="1h")
    assert value_of(app.metrics(), "outlast_queue_depth") == 0
    clock.advance("1h")
    assert value_of(app.metrics(), "outlast_queue_depth") == 1, "due, though nobody has promoted it"
    clock.advance(2)
    assert value_of(app.metrics(), "outlast_queue_oldest_ready_seconds") == 2
    app.claim("w")
    (wait,) = app.metrics()["outlast_wait_seconds"]["samples"]
    assert wait["sum"] == 2


def test_depth_and_ages_are_of_this_moment(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("mail", range(3), queue="out")
    app.enqueue("mail", queue="out", delay=60)
    clock.advance(20)
    app.enqueue("mail", queue="out")
    (lease,) = app.claim("w", queue="out", lease="10m")
    clock.advance(30)
    found = app.metrics()
    assert value_of(found, "outlast_queue_depth", queue="out") == 3
    assert value_of(found, "outlast_queue_oldest_ready_seconds", queue="out") == 50
    assert value_of(found, "outlast_oldest_lease_seconds", queue="out", kind="mail") == 30
    assert value_of(found, "outlast_longest_lease_silence_seconds", queue="out") == 30
    lease.renew()
    assert value_of(app.metrics(), "outlast_longest_lease_silence_seconds", queue="out") == 0
    app.pause("out")
    assert value_of(app.metrics(), "outlast_queue_paused", queue="out") == 1


@pytest.mark.proves("OBS-10")
def test_lost_leases_and_refused_writes_are_counted(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("mail", range(2))
    late, cancelled = app.claim("w", limit=2, lease=10)
    app.cancel(cancelled.task_id)
    clock.advance(60)
    assert app.heal().entries_reclaimed == 1
    for lease in (late, cancelled):
        with pytest.raises(LeaseLost):
            lease.complete()
        with pytest.raises(LeaseLost):
            lease.checkpoint("tool_executed", {})
    with pytest.raises(LeaseLost):
        late.renew()
    app.close()
    found = app.metrics()
    recovered = "outlast_tasks_recovered_total"
    assert value_of(found, recovered, reason="lease_expired", action="retry") == 1
    assert value_of(found, recovered) == 1
    assert value_of(found, "outlast_leases_lost_total", reason="lease_expired") == 1
    assert value_of(found, "outlast_leases_lost_total", reason="cancelled") == 1
    assert value_of(found, "outlast_fenced_writes_total") == 5


def test_a_clean_leave_loses_no_lease(app: Outlast) -> None:
    app.enqueue("mail")
    app.claim("w")
    app.close()
    found = app.metrics()
    assert value_of(found, "outlast_leases_lost_total") == 0
    assert value_of(found, "outlast_tasks_recovered_total") == 0
    assert value_of(found, "outlast_tasks", status="pending") == 1


def test_quarantined_tasks_and_subscribers_that_lag_are_shown(app: Outlast) -> None:
    app.enqueue_many("mail", ["a", "b"], id=["t", "u"])
    app.subscribe(lambda event: None, "audit", after="0.0").close()
    with closing(Hand(app.path)) as hand:
        hand.run("UPDATE tasks SET payload = 'damaged' WHERE id = 't'")
    assert [lease.task_id for lease in app.claim("w", limit=2)] == ["u"]
    found = app.metrics()
    assert value_of(found, "outlast_tasks_quarantined", reason="damaged") == 1
    assert value_of(found, "outlast_tasks_quarantined", reason="held") == 0
    (subscriber,) = app.subscribers()
    assert value_of(found, "outlast_subscriber_lag_events", subscriber="audit") == subscriber.behind


def test_a_task_that_somebody_parked_is_not_held_although_it_was_recovered_before(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("mail", id="t")
    app.claim("w", lease="10s")
    clock.advance("20s")
    app.heal()
    assert app.get("t").recovery_count == 1
    app.park("t", "hold")
    assert value_of(app.metrics(), "outlast_tasks_quarantined") == 0


@pytest.mark.proves("OBS-10")
def test_every_metric_is_there_from_the_beginning_and_says_what_it_is(app: Outlast) -> None:
    app.open()
    found = app.metrics()
    assert found.keys() == METRICS.keys()
    for name, about in found.items():
        assert name.startswith("outlast_")
        assert about["help"].endswith(".")
        assert name.endswith("_total") == (about["type"] == "counter")
    assert count_of(found, "outlast_recovery_duration_seconds") == 1, "the opening was one"
    assert value_of(found, "outlast_wal_bytes") > 0
    assert value_of(found, "outlast_database_bytes") > 0


def test_the_table_of_buckets_and_the_code_agree(app: Outlast) -> None:
    app.open()
    with closing(Hand(app.path)) as hand:
        rows = hand.rows("SELECT upto_ms FROM metric_buckets ORDER BY upto_ms")
    assert [upto_ms for (upto_ms,) in rows] == [*BUCKETS_MS, NO_END_MS]
