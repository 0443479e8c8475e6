from dataclasses import asdict

import pytest

from outlast import InvalidTransition, LeaseLost, Task, TaskNotFound
from outlast.domain.lifecycle import Cause, Outcome, Parked
from outlast.store.records import Settlement
from tests.conformance.driver import BROKEN, COMPLETED, FATAL, RELEASED, Driver

pytestmark = pytest.mark.slow

CANCELLED = Cause(Outcome.CANCEL, "user")
BY_OPERATOR = Cause(Outcome.FAIL, "user", error="enough", retryable=False)
WAITING = Cause(Outcome.WAIT, "worker", parked=Parked.APPROVAL)
EVERY_SETTLE = [COMPLETED, BROKEN, FATAL, RELEASED, WAITING]


def _lease_fields(task: Task) -> set[object]:
    return {task.worker, task.lease_acquired_at, task.lease_expires_at, task.heartbeat_at}


@pytest.mark.proves("QUE-13")
def test_completing_writes_result_and_time_and_empties_the_lease(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    driver.clock.advance("3s")
    assert driver.settle(claimed, COMPLETED, {"pages": 3})
    task = driver.get("t1")
    assert (task.status, task.result, task.error) == ("completed", {"pages": 3}, None)
    assert task.completed_at is not None
    assert task.completed_at.timestamp() * 1000 == driver.clock.now().utc_ms
    assert _lease_fields(task) == {None}
    assert task.last_worker == "w1"
    assert driver.store.tasks.held_by("w1") == []


@pytest.mark.proves("QUE-14")
def test_every_way_to_fail_for_good_fills_the_same_columns(driver: Driver) -> None:
    driver.add("fatal", "spent", "operator-running", max_retries=0)
    driver.add("lost", max_recoveries=0)
    driver.add("operator-pending")
    fatal, spent, *_ = driver.claim(limit=4)
    driver.clock.advance("1s")
    driver.settle(fatal, FATAL)
    driver.settle(spent, BROKEN)
    for task_id in ("operator-running", "operator-pending"):
        driver.store.tasks.settle_by_id(task_id, BY_OPERATOR, driver.clock.now())
    driver.lose()
    failed = driver.store.tasks.find(None, None, None, 100)
    assert {task.status.value for task in failed} == {"failed"}
    assert len(failed) == 5
    for task in failed:
        assert task.completed_at == task.state_changed_at
        assert task.error
        assert _lease_fields(task) == {None}
    assert driver.get("lost").error == (
        "lost 1 of 1 times in kind `work`: the lease of worker w1 ran out"
    )


@pytest.mark.proves("QUE-15")
@pytest.mark.parametrize("first", EVERY_SETTLE)
@pytest.mark.parametrize("second", EVERY_SETTLE)
def test_a_second_settle_by_the_same_lease_is_false_and_changes_nothing(
    driver: Driver, first: Cause, second: Cause
) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    assert driver.settle(claimed, first) is True
    before, moves = driver.get("t1"), driver.moves("t1")
    driver.clock.advance("1s")
    assert driver.settle(claimed, second, "late") is False
    assert asdict(driver.get("t1")) == asdict(before)
    assert driver.moves("t1") == moves


@pytest.mark.proves("QUE-15", "CLM-04")
@pytest.mark.parametrize("cause", EVERY_SETTLE)
def test_an_older_holder_gets_lease_lost_and_changes_nothing(driver: Driver, cause: Cause) -> None:
    driver.add("t1")
    old = driver.claim_one("a")
    driver.lose()
    current = driver.claim_one("b")
    before = driver.get("t1")
    with pytest.raises(LeaseLost, match="t1"):
        driver.settle(old, cause, "mine")
    assert driver.get("t1") == before
    assert driver.settle(current, COMPLETED, "theirs")
    with pytest.raises(LeaseLost):
        driver.settle(old, cause, "mine")
    assert driver.get("t1").result == "theirs"


@pytest.mark.proves("QUE-15")
def test_put_back_cancelled_or_failed_by_others_is_lease_lost(driver: Driver) -> None:
    driver.add("cancelled", "failed", "put-back", "taken")
    cancelled, failed, put_back, taken = driver.claim(limit=4)
    driver.store.tasks.settle_by_id("cancelled", CANCELLED, driver.clock.now())
    driver.store.tasks.settle_by_id("failed", BY_OPERATOR, driver.clock.now())
    driver.lose()
    driver.claim("other", limit=1)
    for claimed in (cancelled, failed, put_back, taken):
        with pytest.raises(LeaseLost):
            driver.settle(claimed)
    assert driver.get("cancelled").status == "cancelled"


def test_a_batch_settles_what_is_current_and_names_what_was_lost(driver: Driver) -> None:
    driver.add("t1", "t2", "t3", "t4")
    leases = driver.claim("w1", limit=4)
    driver.settle(leases[3])
    for task_id in ("t1", "t3"):
        driver.store.tasks.settle_by_id(task_id, CANCELLED, driver.clock.now())
    settlements = [Settlement(one.grant, one.task_id, COMPLETED, '"done"') for one in leases]
    with pytest.raises(LeaseLost) as lost:
        driver.store.leases.settle(settlements, driver.clock.now())
    assert lost.value.task_ids == ("t1", "t3")
    assert (driver.get("t2").status, driver.get("t2").result) == ("completed", "done")
    assert driver.get("t4").result is None
    assert driver.get("t1").status == driver.get("t3").status == "cancelled"


def test_one_lease_named_twice_in_a_batch_settles_once(driver: Driver) -> None:
    driver.add("t1", "t2")
    one, two = driver.claim(limit=2)
    first = Settlement(one.grant, "t1", COMPLETED, "1")
    again = Settlement(one.grant, "t1", COMPLETED, "2")
    other = Settlement(two.grant, "t2", COMPLETED)
    answers = driver.store.leases.settle([first, again, other], driver.clock.now())
    assert answers == [True, False, True]
    assert driver.get("t1").result == 1
    assert driver.moves("t1") == ["claimed", "completed"]


def test_a_batch_may_end_leases_in_different_ways(driver: Driver) -> None:
    driver.add("t1", "t2", "t3")
    leases = driver.claim(limit=3)
    ends = zip(leases, (COMPLETED, FATAL, RELEASED), strict=True)
    settlements = [Settlement(one.grant, one.task_id, cause) for one, cause in ends]
    assert driver.store.leases.settle(settlements, driver.clock.now()) == [True] * 3
    statuses = [driver.get(task_id).status for task_id in ("t1", "t2", "t3")]
    assert statuses == ["completed", "failed", "pending"]


@pytest.mark.proves("CLM-17")
def test_a_released_task_is_pending_and_its_attempt_is_not_charged(driver: Driver) -> None:
    driver.add("t1")
    before = driver.get("t1")
    for _ in range(20):
        assert driver.settle(driver.claim_one(), RELEASED)
    task = driver.get("t1")
    assert (task.status, task.parked) == ("pending", None)
    assert (task.attempt, task.retry_count, task.recovery_count) == (before.attempt, 0, 0)
    assert _lease_fields(task) == {None}


def test_a_task_that_waits_is_parked_uncharged_until_it_is_unparked(driver: Driver) -> None:
    driver.add("t1")
    driver.settle(driver.claim_one(), WAITING)
    task = driver.get("t1")
    assert (task.status, task.parked, task.attempt) == ("pending", "approval", 0)
    assert driver.claim() == []
    assert driver.store.tasks.unpark("t1", driver.clock.now())
    assert driver.claim_one().attempt == 1


def test_cancelling_ends_a_pending_and_a_running_task_for_good(driver: Driver) -> None:
    driver.add("running", "pending")
    driver.claim_one()
    for task_id in ("running", "pending"):
        done = driver.store.tasks.settle_by_id(task_id, CANCELLED, driver.clock.now())
        assert (done.status, done.is_final, _lease_fields(done)) == ("cancelled", True, {None})
        assert done.completed_at is not None
    assert driver.claim() == []


@pytest.mark.parametrize("cause", [CANCELLED, BY_OPERATOR])
@pytest.mark.parametrize("ended", [COMPLETED, FATAL, CANCELLED])
def test_what_is_final_cannot_be_moved_by_anybody(
    driver: Driver, ended: Cause, cause: Cause
) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    if ended is CANCELLED:
        driver.store.tasks.settle_by_id("t1", CANCELLED, driver.clock.now())
    else:
        driver.settle(claimed, ended)
    before = driver.get("t1")
    with pytest.raises(InvalidTransition):
        driver.store.tasks.settle_by_id("t1", cause, driver.clock.now())
    assert driver.get("t1") == before


def test_moving_a_task_that_does_not_exist_says_so(driver: Driver) -> None:
    with pytest.raises(TaskNotFound, match="nope"):
        driver.store.tasks.settle_by_id("nope", CANCELLED, driver.clock.now())


@pytest.mark.proves("QUE-17", "RTY-06")
def test_the_first_start_stays_and_each_attempt_has_its_own(driver: Driver) -> None:
    driver.add("t1")
    driver.clock.advance("1s")
    first = driver.claim_one()
    begun = driver.get("t1").lease_acquired_at
    driver.settle(first, BROKEN)
    assert driver.get("t1").lease_acquired_at is None
    driver.clock.advance("1s")
    driver.claim_one()
    task = driver.get("t1")
    assert begun is not None
    assert task.started_at == begun
    assert task.lease_acquired_at is not None
    assert (task.lease_acquired_at - begun).total_seconds() == 1
