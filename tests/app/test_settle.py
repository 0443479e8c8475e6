from collections.abc import Callable
from typing import Any

import pytest

from outlast import InvalidInput, LeaseLost, Outlast, PermanentError
from outlast.testing import ManualClock


def _failed_after(app: Outlast, error: Any, **how: Any) -> Any:
    task = app.enqueue("work")
    (lease,) = app.claim("w")
    assert lease.fail(error, **how)
    return app.get(task.id)


@pytest.mark.proves("RTY-09")
def test_a_flaky_task_succeeds_on_its_second_run(app: Outlast, clock: ManualClock) -> None:
    task = app.enqueue("work")
    (lease,) = app.claim("w")
    assert lease.fail(OSError("the network is down"))
    failed = app.get(task.id)
    assert (failed.status, failed.parked, failed.retry_count) == ("pending", "delay", 1)
    assert (failed.attempt, failed.recovery_count) == (1, 0)
    assert failed.error == "OSError: the network is down"
    clock.advance("1s")
    (lease,) = app.claim("w")
    assert lease.attempt == 2
    assert lease.complete("done")
    done = app.get(task.id)
    assert (done.status, done.result, done.error) == ("completed", "done", None)


@pytest.mark.proves("RTY-09")
def test_each_back_off_lies_in_the_upper_half_of_its_doubling(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(max_retries=12)
    waits: list[float] = []
    app.enqueue("work", id="t1")
    for _ in range(12):
        (lease,) = app.claim("w")
        lease.fail("broken")
        not_before = app.get("t1").not_before
        assert not_before is not None
        waits.append(not_before.timestamp() - clock.now().utc_ms / 1000)
        clock.advance("5m")
    for wait, full in zip(waits, [min(1 << n, 300) for n in range(12)], strict=True):
        assert full / 2 <= wait <= full


@pytest.mark.proves("RTY-09")
def test_back_offs_of_many_tasks_are_spread(app: Outlast) -> None:
    app.enqueue_many("work", range(40))
    for lease in app.claim("w", limit=40):
        lease.fail("broken")
    assert len({task.not_before for task in app.tasks()}) > 5


@pytest.mark.proves("RTY-09")
@pytest.mark.parametrize(
    ("error", "how"),
    [(PermanentError("no such file"), {}), ("no such file", {"retry": False})],
)
def test_a_permanent_error_fails_at_once(app: Outlast, error: Any, how: dict[str, Any]) -> None:
    task = _failed_after(app, error, **how)
    assert (task.status, task.attempt, task.retry_count) == ("failed", 1, 0)
    assert task.error.endswith("no such file")
    assert app.history(task.id)[-1].reason == "permanent_error"


def test_a_failure_may_name_its_own_delay(app: Outlast, clock: ManualClock) -> None:
    task = _failed_after(app, "rate limited", delay="10m")
    clock.advance("599s")
    assert app.claim("w") == []
    clock.advance("1s")
    assert [lease.task_id for lease in app.claim("w")] == [task.id]


def test_an_error_is_kept_as_type_and_message_and_capped(app: Outlast) -> None:
    assert _failed_after(app, ValueError("x"), retry=False).error == "ValueError: x"
    long = _failed_after(app, "x" * 50_000, retry=False).error
    assert long.startswith("x" * 10_000)
    assert len(long) < 10_100


def test_an_error_that_is_not_proper_text_is_recorded_all_the_same(app: Outlast) -> None:
    """File names that are not UTF-8 end up in messages as lone surrogates."""
    task = _failed_after(app, OSError("no such file: \udcff.pdf"), retry=False)
    assert task.status == "failed"
    assert task.error.startswith("OSError: no such file: ")
    assert task.error.endswith(".pdf")


@pytest.mark.proves("CLM-17")
def test_releasing_gives_the_attempt_back_and_may_wait(app: Outlast, clock: ManualClock) -> None:
    task = app.enqueue("work")
    (lease,) = app.claim("w")
    assert app.get(task.id).attempt == 1
    assert lease.release(delay="5s")
    released = app.get(task.id)
    assert (released.status, released.attempt, released.parked) == ("pending", 0, "delay")
    assert app.claim("w") == []
    clock.advance("5s")
    assert app.claim("w")[0].attempt == 1


def test_a_lease_may_be_parked_for_a_reason_or_for_a_time(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(2), id=["event", "sleep"])
    event, sleep = app.claim("w", limit=2)
    assert event.park("event")
    assert sleep.park("delay", delay="1h")
    clock.advance("1h")
    assert [lease.task_id for lease in app.claim("w", limit=9)] == ["sleep"]
    assert app.unpark("event")
    assert [lease.task_id for lease in app.claim("w", limit=9)] == ["event"]


@pytest.mark.parametrize(
    ("reason", "delay"), [("delay", None), ("event", "1s"), ("lunch", None), (None, None)]
)
def test_a_lease_is_not_parked_for_no_reason(app: Outlast, reason: Any, delay: Any) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    with pytest.raises(InvalidInput):
        lease.park(reason, delay)
    assert app.get("t1").status == "running"


@pytest.mark.proves("QUE-15")
def test_a_second_completion_by_the_same_lease_is_false(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    assert lease.complete("first") is True
    before = app.get("t1")
    assert lease.complete("second") is False
    assert lease.fail("late") is False
    assert lease.release() is False
    assert app.get("t1") == before


def test_completing_many_stores_the_good_and_names_the_lost(app: Outlast) -> None:
    app.enqueue_many("work", range(5), id=list("abcde"))
    leases = app.claim("w", limit=5)
    app.cancel("b")
    app.fail("d", "by hand")
    with pytest.raises(LeaseLost) as lost:
        app.complete_many((lease, n) for n, lease in enumerate(leases))
    assert lost.value.task_ids == ("b", "d")
    assert "3 others were settled" in str(lost.value)
    assert [app.get(one).result for one in "ace"] == [0, 2, 4]
    assert app.counts() == {
        "pending": 0, "running": 0, "completed": 3, "failed": 1, "cancelled": 1,
    }  # fmt: skip


def test_completing_many_answers_for_each_lease(app: Outlast) -> None:
    app.enqueue_many("work", range(3))
    leases = app.claim("w", limit=3)
    leases[1].complete()
    assert app.complete_many([(lease, None) for lease in leases]) == [True, False, True]
    assert app.complete_many([]) == []


def test_completing_many_refuses_bad_results_and_other_objects_leases_before_any_write(
    app: Outlast, make_app: Callable[..., Outlast]
) -> None:
    app.enqueue_many("work", range(3))
    mine = app.claim("w", limit=2)
    (theirs,) = make_app().claim("w")
    with pytest.raises(InvalidInput, match="this very object"):
        app.complete_many([(mine[0], 1), (theirs, 2)])
    with pytest.raises(InvalidInput, match="result"):
        app.complete_many([(mine[0], 1), (mine[1], object())])
    assert app.counts()["running"] == 3


@pytest.mark.proves("QUE-14")
def test_the_explicit_and_the_poison_path_fill_the_same_final_time(
    app: Outlast, clock: ManualClock
) -> None:
    explicit = _failed_after(app, "broken", retry=False)
    poison = app.enqueue("work").id
    for _ in range(4):
        app.claim("w", lease="1s")
        clock.advance("1s")
        app.heal()
    for task in (explicit, app.get(poison)):
        assert task.status == "failed"
        assert task.completed_at == app.history(task.id)[-1].at
        assert task.error
        assert (task.worker, task.lease_expires_at, task.heartbeat_at) == (None, None, None)
