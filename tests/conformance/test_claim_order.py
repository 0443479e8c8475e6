from random import Random

import pytest

from outlast import PayloadDamaged
from outlast.domain.lifecycle import Parked
from tests.conformance.driver import BROKEN, RELEASED, Driver, new_task


@pytest.mark.proves("QUE-10")
def test_a_thousand_equals_made_in_one_moment_come_out_as_they_went_in(driver: Driver) -> None:
    ids = [f"t{n}" for n in Random(7).sample(range(10_000), 1000)]
    for task_id in ids[:50]:
        driver.add(task_id)
    driver.add(*ids[50:])
    claimed = []
    while batch := driver.claimed_ids(limit=7):
        claimed += batch
    assert claimed == ids


@pytest.mark.proves("QUE-10")
def test_higher_priority_comes_first_and_equals_stay_in_order(driver: Driver) -> None:
    for task_id, priority in [("a", 0), ("b", 5), ("c", -5), ("d", 5), ("e", 0), ("f", 99)]:
        driver.add(task_id, priority=priority)
    assert driver.claimed_ids(limit=100) == ["f", "b", "d", "a", "e", "c"]


@pytest.mark.proves("CLM-11")
def test_recovered_tasks_run_before_anything_queued_later(driver: Driver) -> None:
    """Orphans lead their class in their old order; what is in flight stays with its holder."""
    driver.add("orphan1", "orphan2")
    driver.claim("dies", limit=2)
    driver.clock.advance("299s")
    driver.add("inflight1", "inflight2", "waiting1", "waiting2")
    driver.add("urgent", priority=1)
    driver.claim("lives", limit=3)
    driver.clock.advance("1s")
    assert driver.heal().put_back == 2
    assert driver.claimed_ids() == ["orphan1", "orphan2", "waiting1", "waiting2"]
    held = {task.id for task in driver.store.tasks.held_by("lives")}
    assert held == {"urgent", "inflight1", "inflight2"}


def test_released_and_retried_tasks_keep_their_place_in_line(driver: Driver) -> None:
    driver.add("t1", "t2", "t3")
    first, second = driver.claim(limit=2)
    driver.settle(second, BROKEN)
    driver.settle(first, RELEASED)
    assert driver.claimed_ids() == ["t1", "t2", "t3"]


def test_what_was_delayed_or_parked_takes_its_old_place_when_it_is_free(driver: Driver) -> None:
    driver.add("delayed", not_before_ms=driver.clock.now().utc_ms + 1000)
    driver.add("parked", "t3")
    driver.store.tasks.park("parked", Parked.EVENT, driver.clock.now())
    driver.clock.advance("1s")
    driver.store.tasks.unpark("parked", driver.clock.now())
    assert driver.claimed_ids() == ["delayed", "parked", "t3"]


def test_more_tasks_may_come_due_at_once_than_one_batch_of_promotions(driver: Driver) -> None:
    due = driver.clock.now().utc_ms + 1000
    ids = [f"t{n}" for n in range(2500)]
    driver.store.tasks.add([new_task(one, not_before_ms=due) for one in ids], driver.clock.now())
    driver.clock.advance("1s")
    claimed = driver.claimed_ids(limit=3000)
    assert len(claimed) == 2500
    assert set(claimed) == set(ids)


def test_a_task_whose_stored_payload_is_damaged_is_set_aside_and_the_next_one_runs(
    driver: Driver,
) -> None:
    damaged = new_task("damaged", payload={"n": 1})._replace(payload='{"n":3}')
    driver.store.tasks.add([damaged, new_task("sound")], driver.clock.now())
    assert driver.claimed_ids(limit=1) == ["sound"]
    task = driver.get("damaged")
    assert (task.status, task.parked) == ("pending", "partial")
    with pytest.raises(PayloadDamaged):
        _ = task.payload
