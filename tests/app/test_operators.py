import pytest

from outlast import InvalidInput, InvalidTransition, LeaseLost, Outlast, Task, TaskNotFound
from outlast.testing import ManualClock


def _final(app: Outlast, end: str, task_id: str = "t1") -> Task:
    app.enqueue("mail", {"to": "ada"}, id=task_id, queue="q", group="g", priority=4, max_retries=1)
    (lease,) = app.claim("w", queue="q")
    if end == "completed":
        lease.complete("sent")
    elif end == "failed":
        lease.fail("bounced", retry=False)
    else:
        app.cancel(task_id)
    return app.get(task_id)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_retrying_a_final_task_makes_a_linked_clone_and_leaves_the_original(
    app: Outlast, end: str
) -> None:
    original = _final(app, end)
    clone = app.retry("t1")
    assert (clone.retry_of, clone.status, clone.attempt) == ("t1", "pending", 0)
    assert clone.id != "t1"
    for field in ("kind", "payload", "queue", "group", "priority", "max_retries"):
        assert getattr(clone, field) == getattr(original, field)
    assert app.get("t1") == original
    assert app.get(clone.id) == clone
    (lease,) = app.claim("w", queue="q")
    assert (lease.task_id, lease.payload) == (clone.id, {"to": "ada"})


def test_only_a_final_task_can_be_retried(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    with pytest.raises(InvalidTransition, match="pending; only a final task"):
        app.retry("t1")
    app.claim("w")
    with pytest.raises(InvalidTransition, match="running; only a final task"):
        app.retry("t1")
    with pytest.raises(TaskNotFound):
        app.retry("nope")
    assert len(app.tasks()) == 1


def test_cancelling_is_true_once_false_again_and_refused_for_what_ended_otherwise(
    app: Outlast,
) -> None:
    app.enqueue("work", id="t1")
    assert app.cancel("t1") is True
    assert app.cancel("t1") is False
    _final(app, "completed", "t2")
    with pytest.raises(InvalidTransition, match="completed"):
        app.cancel("t2")
    with pytest.raises(TaskNotFound):
        app.cancel("nope")


def test_the_holder_of_a_cancelled_task_finds_its_lease_lost(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    app.cancel("t1")
    with pytest.raises(LeaseLost):
        lease.renew()
    with pytest.raises(LeaseLost):
        lease.complete()
    assert app.get("t1").status == "cancelled"


@pytest.mark.parametrize("claimed", [True, False])
def test_an_operator_may_fail_a_task_whoever_holds_it(app: Outlast, claimed: bool) -> None:
    app.enqueue("work", id="t1")
    leases = app.claim("w") if claimed else []
    task = app.fail("t1", "the customer left")
    assert (task.status, task.error) == ("failed", "the customer left")
    last = app.history("t1")[-1]
    assert (last.actor, last.reason) == ("user", "failed_by_operator")
    for lease in leases:
        with pytest.raises(LeaseLost):
            lease.complete()
    with pytest.raises(InvalidTransition):
        app.fail("t1", "again")


def test_parking_holds_a_task_and_a_delay_is_not_a_reason_to_give(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    assert app.park("t1")
    assert app.get("t1").parked == "hold"
    assert app.claim("w") == []
    assert app.unpark("t1") is True
    assert app.unpark("t1") is False
    for reason in ("delay", "lunch"):
        with pytest.raises(InvalidInput):
            app.park("t1", reason)
    assert len(app.claim("w")) == 1


def test_a_paused_queue_can_be_named_only_properly(app: Outlast) -> None:
    assert app.pause("default") is True
    assert app.pause("default") is False
    assert app.unpause("default") is True
    assert app.unpause("default") is False
    for name in ("", None):
        with pytest.raises(InvalidInput):
            app.pause(name)  # type: ignore[arg-type]


def test_why_names_the_holder_and_says_when_recovery_is_due(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    app.claim("worker-7")
    assert "attempt 1, held by worker worker-7 (pid " in app.why("t1")
    assert "lease until 2027-01-15T08:05:00+00:00" in app.why("t1")
    assert "recovery is due" not in app.why("t1")
    clock.advance("5m")
    assert "recovery is due and the next claim may put it back" in app.why("t1")


def test_why_tells_how_a_task_ended_and_why_it_waits_after_a_failure(app: Outlast) -> None:
    app.enqueue("work", id="retried")
    app.claim("w")[0].fail("out of paper")
    assert "after a failure (out of paper)" in app.why("retried")
    for end, sentence in {
        "completed": "by worker w",
        "failed": "by worker: permanent error (bounced)",
        "cancelled": "by user: cancelled",
    }.items():
        _final(app, end, end)
        assert app.why(end) == f"{end} at 2027-01-15T08:00:00+00:00 {sentence}"
    with pytest.raises(TaskNotFound):
        app.why("nope")


def test_what_does_not_exist_is_not_found(app: Outlast) -> None:
    app.open()
    for ask in (app.get, app.history, app.why, app.group, app.unpark, app.checkpoints):
        with pytest.raises(LookupError, match="nope"):
            ask("nope")
    assert app.resolve("nope") is None


@pytest.mark.proves("QUE-02")
def test_tasks_are_asked_for_by_our_words_or_the_ones_other_systems_use(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    app.claim("w")
    for word in ("running", "claimed", "in_progress", "processing", "Running"):
        assert [task.id for task in app.tasks(status=word)] == ["t1"]
    assert app.tasks(status="expired") == []
    for wrong in ("stuck", 5):
        with pytest.raises(InvalidInput, match="is not a status"):
            app.tasks(status=wrong)  # type: ignore[arg-type]
    for limit in (0, 100_001, "9"):
        with pytest.raises(InvalidInput, match="limit"):
            app.tasks(limit=limit)  # type: ignore[arg-type]
