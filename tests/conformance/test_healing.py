from dataclasses import asdict

import pytest

from outlast.domain.lifecycle import RecoveryAction
from outlast.store.records import Healed
from tests.conformance.driver import BROKEN, COMPLETED, LEASE_MS, PATIENCE, RELEASED, Driver


@pytest.mark.proves("QUE-20")
def test_putting_a_task_back_changes_only_state_lease_and_counters(driver: Driver) -> None:
    driver.add(
        "t1", kind="mail", queue="q", group="g", priority=4, payload={"n": [1]}, max_retries=2
    )
    driver.add("behind", queue="q", priority=4)
    before = asdict(driver.get("t1"))
    driver.claim_one(queues=("q",))
    driver.lose()
    after = asdict(driver.get("t1"))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {
        "token", "attempt", "recovery_count", "crashes_in_row", "last_worker", "error",
        "started_at", "state_changed_at", "updated_at",
    }  # fmt: skip
    assert driver.claimed_ids(queues=("q",)) == ["t1", "behind"]


@pytest.mark.proves("RTY-01")
def test_the_three_counters_count_executions_failures_and_crashes(driver: Driver) -> None:
    driver.add("t1")
    driver.claim_one()
    driver.lose()
    assert _counters(driver) == (1, 0, 1)
    claimed = driver.claim_one()
    assert claimed.attempt == 2
    assert _counters(driver) == (2, 0, 1)
    driver.settle(claimed, BROKEN)
    assert _counters(driver) == (2, 1, 1)


def _counters(driver: Driver) -> tuple[int, int, int]:
    task = driver.get("t1")
    return task.attempt, task.retry_count, task.recovery_count


@pytest.mark.proves("RTY-02")
def test_the_attempt_is_charged_by_the_claim_itself(driver: Driver) -> None:
    driver.add("t1")
    driver.claim_one()
    assert driver.get("t1").attempt == 1
    assert [move.attempt for move in driver.store.tasks.history("t1") or []] == [1]


@pytest.mark.proves("RTY-03")
def test_a_task_lost_each_time_runs_four_times_and_fails(driver: Driver) -> None:
    driver.add("t1")
    for attempt in (1, 2, 3):
        assert driver.claim_one().attempt == attempt
        assert driver.lose() == Healed(put_back=1)
    assert driver.claim_one().attempt == 4
    assert driver.lose() == Healed(failed=1)
    task = driver.get("t1")
    assert (task.status, task.recovery_count, task.retry_count) == ("failed", 3, 0)
    assert task.error == "lost 4 of 4 times in kind `work`: the lease of worker w1 ran out"
    assert driver.moves("t1")[-1] == "max_retries_exceeded"
    assert driver.claim() == []


@pytest.mark.proves("RTY-03")
def test_a_task_that_fails_each_time_runs_four_times_and_fails(driver: Driver) -> None:
    driver.add("t1")
    for attempt in (1, 2, 3, 4):
        claimed = driver.claim_one()
        assert claimed.attempt == attempt
        assert driver.settle(claimed, BROKEN)
    task = driver.get("t1")
    assert (task.status, task.retry_count, task.recovery_count) == ("failed", 3, 0)
    assert driver.moves("t1")[-1] == "max_retries_exceeded"
    assert driver.claim() == []


@pytest.mark.proves("RTY-05")
def test_under_the_pending_action_a_crash_loop_ends_with_the_fourth_loss(driver: Driver) -> None:
    driver.add("t1")
    for _ in range(3):
        driver.claim_one()
        assert driver.lose(RecoveryAction.PENDING).put_back == 1
        assert driver.get("t1").attempt == 0
    driver.claim_one()
    assert driver.lose(RecoveryAction.PENDING).failed == 1
    assert (driver.get("t1").status, driver.get("t1").recovery_count) == ("failed", 3)


def test_under_the_fail_action_the_first_loss_is_the_last(driver: Driver) -> None:
    driver.add("t1")
    driver.claim_one()
    assert driver.lose(RecoveryAction.FAIL) == Healed(failed=1)
    assert driver.get("t1").status == "failed"


@pytest.mark.proves("RTY-04")
def test_a_poison_task_in_front_never_blocks_the_good_ones(driver: Driver) -> None:
    driver.add("poison", priority=9)
    good = [f"good{n}" for n in range(5)]
    driver.add(*good)
    done = []
    for _ in range(20):
        driver.heal()
        (claimed,) = driver.claim() or (None,)
        if claimed is None:
            break
        if claimed.task_id == "poison":
            driver.clock.advance(LEASE_MS / 1000)
        else:
            driver.settle(claimed, COMPLETED)
            done.append(claimed.task_id)
    assert done == good
    assert driver.get("poison").status == "failed"
    assert driver.moves("poison").count("claimed") == 4
    assert driver.moves("poison")[-1] == "max_retries_exceeded"


def test_more_expired_leases_than_one_batch_are_all_put_back(driver: Driver) -> None:
    driver.add(*(f"t{n}" for n in range(25)))
    driver.claim(limit=25)
    driver.clock.advance(LEASE_MS / 1000)
    assert driver.heal(batch=10).put_back == 25
    assert driver.store.figures.counts(None)["pending"] == 25
    assert driver.heal(batch=10).put_back == 0


def test_healing_is_due_only_while_there_is_something_to_heal(driver: Driver) -> None:
    now = driver.clock.now
    assert not driver.store.recovery.is_due(now(), PATIENCE)
    driver.add("t1", "t2")
    released, _ = driver.claim(limit=2)
    driver.settle(released, RELEASED)
    assert not driver.store.recovery.is_due(now(), PATIENCE)
    driver.clock.advance(LEASE_MS / 1000)
    assert driver.store.recovery.is_due(now(), PATIENCE)
    driver.heal()
    assert not driver.store.recovery.is_due(now(), PATIENCE)


def test_a_prefetched_task_whose_lease_runs_out_is_charged(driver: Driver) -> None:
    """Whether it was begun is only known of a dead process; silence is charged."""
    driver.add("t1")
    driver.claim_one(started=False)
    driver.lose()
    assert (driver.get("t1").attempt, driver.get("t1").recovery_count) == (1, 1)


def test_beginning_a_prefetched_task_leaves_it_running_and_settleable(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one(started=False)
    driver.store.leases.note_start(claimed.grant)
    driver.store.leases.note_start(claimed.grant)
    assert driver.get("t1").status == "running"
    assert driver.settle(claimed)
