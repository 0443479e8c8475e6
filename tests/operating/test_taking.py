"""What people take from workers that live: told as theirs, charged, and blamed on no task."""

import pytest

from outlast import LeaseLost, Outlast
from outlast.testing import ManualClock
from tests.metrics.reading import value_of

LOST = "outlast_leases_lost_total"


def test_every_lease_that_people_take_is_counted_as_theirs(app: Outlast) -> None:
    app.enqueue_many("mail", range(3), id=["a", "b", "c"])
    leases = app.claim("w", limit=3, lease="1h")
    app.force("a", "retry", by="ada")
    app.force("b", "pending", by="ada")
    assert app.reclaim_stale(0, force=True, by="ada") == 1
    for lease in leases:
        with pytest.raises(LeaseLost):
            lease.renew()
    found = app.metrics()
    assert value_of(found, LOST, reason="by_operator") == 3
    assert value_of(found, LOST) == 3
    assert value_of(found, "outlast_tasks_recovered_total") == 0


def test_a_worker_that_is_declared_dead_loses_its_leases_to_people(app: Outlast) -> None:
    app.enqueue("mail", id="a")
    app.claim("w", lease="1h")
    (own,) = app.workers()
    assert app.mark_dead(own.incarnation, by="ada", force=True) is not None
    assert value_of(app.metrics(), LOST, reason="by_operator") == 1


def test_a_task_that_people_took_again_and_again_is_no_suspect(app: Outlast) -> None:
    """It is charged a crash each time, and yet ends nobody's process."""
    app.enqueue("mail", id="a")
    for _ in range(3):
        app.claim("w", lease="1h")
        app.reclaim_stale(0, force=True, by="ada")
    assert app.get("a").recovery_count == 3
    assert app.recovery_status().suspects == ()
    app.claim("w", lease="1h")
    app.reclaim_stale(0, force=True, by="ada")
    task = app.get("a")
    assert (task.status, task.error) == (
        "failed",
        "taken 4 of 4 times in kind `mail`: the lease of worker w was taken away by operator/ada",
    )


def test_the_next_attempt_learns_that_the_one_before_was_taken_away(app: Outlast) -> None:
    app.enqueue("mail", id="a")
    app.claim("w", lease="1h")
    app.reclaim_stale(0, force=True, by="ada")
    (boundary,) = app.checkpoints("a")
    assert boundary.data["cause"] == "taken_by_operator"
    assert boundary.data["error"] == "the lease of worker w was taken away by operator/ada"


def test_a_lease_that_ran_out_is_reclaimed_under_the_name_that_was_given(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("mail", id="a")
    app.claim("w", lease="1m")
    clock.advance("5m")
    assert app.reclaim_stale("1m", by="ada") == 1
    move = app.history("a")[-1]
    assert (move.actor, move.reason) == ("operator/ada", "lease_expired_retry")
    (act,) = app.audit()
    assert (act.actor, act.source, act.action) == ("operator/ada", "library", "queue.reclaim")
