import pytest

from outlast import InvalidTransition, TaskNotFound
from outlast.domain.lifecycle import Cause, Parked
from tests.conformance.driver import BROKEN, COMPLETED, RELEASED, Driver


@pytest.mark.proves("QUE-25")
@pytest.mark.parametrize(("after_ms", "eligible"), [(4999, []), (5000, ["t1"]), (5001, ["t1"])])
def test_a_delayed_task_cannot_be_claimed_before_its_time(
    driver: Driver, after_ms: int, eligible: list[str]
) -> None:
    driver.add("t1", not_before_ms=driver.clock.now().utc_ms + 5000)
    assert driver.claim() == []
    driver.clock.advance(after_ms / 1000)
    assert driver.claimed_ids() == eligible


@pytest.mark.proves("QUE-25")
@pytest.mark.parametrize("cause", [RELEASED, BROKEN])
def test_a_task_put_back_with_a_delay_waits_for_its_time(driver: Driver, cause: Cause) -> None:
    driver.add("t1")
    driver.settle(driver.claim_one(), cause._replace(delay_ms=5000))
    task = driver.get("t1")
    assert task.parked == "delay"
    assert task.not_before is not None
    assert task.not_before.timestamp() * 1000 == driver.clock.now().utc_ms + 5000
    driver.clock.advance("4999ms")
    assert driver.claim() == []
    driver.clock.advance("1ms")
    assert driver.claimed_ids() == ["t1"]


@pytest.mark.proves("QUE-25")
def test_recovery_puts_back_without_delay(driver: Driver) -> None:
    driver.add("t1")
    driver.claim_one()
    driver.lose()
    task = driver.get("t1")
    assert (task.parked, task.not_before) == (None, None)
    assert driver.claimed_ids() == ["t1"]


@pytest.mark.parametrize("reason", [Parked.EVENT, Parked.APPROVAL, Parked.HOLD, Parked.PARTIAL])
def test_a_parked_task_is_pending_and_not_handed_out_until_unparked(
    driver: Driver, reason: Parked
) -> None:
    driver.add("t1", "t2")
    driver.clock.advance("3s")
    assert driver.store.tasks.park("t1", reason, driver.clock.now())
    task = driver.get("t1")
    assert (task.status, task.parked) == ("pending", reason)
    assert task.updated_at.timestamp() * 1000 == driver.clock.now().utc_ms
    assert task.state_changed_at == task.created_at
    assert driver.claimed_ids() == ["t2"]
    driver.clock.advance("10d")
    assert driver.claim() == []
    assert driver.store.tasks.unpark("t1", driver.clock.now()) is True
    assert driver.store.tasks.unpark("t1", driver.clock.now()) is False
    assert driver.claimed_ids() == ["t1"]


def test_unparking_a_delayed_task_lets_it_run_now(driver: Driver) -> None:
    driver.add("t1", not_before_ms=driver.clock.now().utc_ms + 5000)
    assert driver.store.tasks.unpark("t1", driver.clock.now())
    assert driver.get("t1").not_before is None
    assert driver.claimed_ids() == ["t1"]


def test_only_a_pending_task_can_be_parked(driver: Driver) -> None:
    driver.add("running", "completed")
    _, done = driver.claim(limit=2)
    driver.settle(done, COMPLETED)
    now = driver.clock.now()
    for task_id in ("running", "completed"):
        with pytest.raises(InvalidTransition, match="only a pending task"):
            driver.store.tasks.park(task_id, Parked.HOLD, now)
        with pytest.raises(InvalidTransition, match="only a pending task"):
            driver.store.tasks.unpark(task_id, now)
    with pytest.raises(TaskNotFound):
        driver.store.tasks.park("nope", Parked.HOLD, now)


def test_a_paused_queue_hands_out_nothing_and_others_go_on(driver: Driver) -> None:
    driver.add("t1")
    driver.add("t2", queue="other")
    now = driver.clock.now()
    assert driver.store.queues.pause("default", now) is True
    assert driver.store.queues.pause("default", now) is False
    assert (driver.store.queues.is_paused("default"), driver.store.queues.is_paused("other")) == (
        True,
        False,
    )
    assert driver.claimed_ids(queues=("default", "other")) == ["t2"]
    assert driver.store.queues.unpause("default", now) is True
    assert driver.store.queues.unpause("default", now) is False
    assert driver.claimed_ids() == ["t1"]


def test_a_paused_queue_accepts_work_and_lets_running_tasks_finish(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    driver.store.queues.pause("default", driver.clock.now())
    driver.add("t2")
    assert driver.renew(claimed)
    assert driver.settle(claimed)
    assert driver.claim() == []
    assert driver.get("t2").status == "pending"


def test_what_waits_does_not_stand_in_the_way_of_what_is_ready(driver: Driver) -> None:
    later = driver.clock.now().utc_ms + 60_000
    driver.add(*(f"delayed{n}" for n in range(50)), priority=9, not_before_ms=later)
    driver.add("parked", priority=9)
    driver.store.tasks.park("parked", Parked.HOLD, driver.clock.now())
    driver.add("ready")
    assert driver.claimed_ids(limit=1) == ["ready"]
    assert driver.claim() == []


def test_a_poller_that_found_nothing_sees_every_way_a_task_becomes_ready(driver: Driver) -> None:
    """An empty claim may be answered from a read; it must never miss what came since."""
    now = driver.clock.now
    driver.add("t1", not_before_ms=now().utc_ms + 1000)
    assert driver.claim() == []
    driver.clock.advance("1s")
    claimed = driver.claim_one()
    assert driver.claim() == []
    driver.settle(claimed, RELEASED)
    claimed = driver.claim_one()
    assert driver.claim() == []
    driver.settle(claimed, RELEASED)
    driver.store.queues.pause("default", now())
    assert driver.claim() == []
    driver.store.queues.unpause("default", now())
    assert driver.claimed_ids(kinds=("work", "other")) == ["t1"]
    assert driver.claim() == []
    driver.lose()
    assert driver.claimed_ids() == ["t1"]
