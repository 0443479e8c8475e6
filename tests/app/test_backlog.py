"""What is unfinished: how much, whether there is any, and whose it is."""

import pytest

from outlast import Backlog, InvalidInput, Outlast
from outlast.testing import ManualClock


@pytest.mark.proves("QUE-23")
def test_a_running_task_counts_as_unfinished_makes_the_flag_true_and_shows_its_group(
    app: Outlast,
) -> None:
    assert app.open().backlog() == Backlog(0, ())
    assert app.backlog().any_unfinished is False
    app.enqueue("work", id="t1", group="g1")
    app.claim("w")
    backlog = app.backlog()
    assert (backlog.unfinished, backlog.any_unfinished, backlog.groups) == (1, True, ("g1",))
    assert app.backlog("default") == backlog


@pytest.mark.proves("QUE-23")
def test_everything_that_waits_counts_and_nothing_that_is_final_does(
    app: Outlast, clock: ManualClock
) -> None:
    for n, group in enumerate(("done", "failed", "cancelled", "running")):
        app.enqueue("work", id=group, group=group, priority=9 - n)
    done, failed, *_ = app.claim("w", limit=4)
    done.complete()
    failed.fail("no", retry=False)
    app.cancel("cancelled")
    app.enqueue("work", group="ready")
    app.enqueue("work", group="delayed", delay="1h")
    for reason in ("hold", "event", "approval"):
        app.enqueue("work", id=reason, group=reason)
        app.park(reason, reason)
    app.enqueue("work")
    backlog = app.backlog()
    assert backlog.unfinished == 7
    assert backlog.groups == ("approval", "delayed", "event", "hold", "ready", "running")
    assert app.counts()["pending"] + app.counts()["running"] == 7
    assert app.backlog(limit=2).groups == ("approval", "delayed")


@pytest.mark.proves("QUE-23")
def test_a_queues_backlog_is_its_own(app: Outlast) -> None:
    for queue in ("a", "b"):
        app.enqueue("work", queue=queue, group=f"ready {queue}")
        app.enqueue("work", queue=queue, group=f"delayed {queue}", delay="1h")
        app.enqueue("work", queue=queue, group=f"parked {queue}", id=queue)
        app.park(queue)
        app.enqueue("work", queue=queue, group=f"running {queue}", priority=9)
        app.claim("w", queue=queue)
    names = ("delayed b", "parked b", "ready b", "running b")
    assert app.backlog("b") == Backlog(4, names)
    assert app.backlog("c") == Backlog(0, ())
    assert app.backlog().unfinished == 8
    assert app.counts("b") == {
        "pending": 3, "running": 1, "completed": 0, "failed": 0, "cancelled": 0
    }  # fmt: skip


def test_of_a_status_that_many_are_in_the_newest_are_listed_all_the_same(app: Outlast) -> None:
    """More than are sorted: these are met along the table, and the answer is the same."""
    ids = app.enqueue_many("work", range(5001))
    app.park(ids[0])
    app.enqueue("other", delay="1h", queue="q")
    for limit in (3, 6000):
        found = [task.id for task in app.tasks(status="pending", queue="default", limit=limit)]
        assert found == ids[::-1][:limit]
    assert len(app.tasks(status="pending", limit=6000)) == 5002
    assert app.counts("default")["pending"] == 5001


def test_questions_that_make_no_sense_are_refused(app: Outlast) -> None:
    app.open()
    for wrong in ({"queue": ""}, {"queue": 5}, {"limit": 0}, {"limit": 100_001}):
        with pytest.raises(InvalidInput):
            app.backlog(**wrong)
