import pytest

from outlast import InvalidInput
from outlast.store.base import Store
from outlast.tasks.ids import new_id
from tests.conformance.driver import Driver, new_task


@pytest.mark.proves("QUE-12")
def test_a_new_task_is_pending_unheld_and_uncounted(driver: Driver) -> None:
    assert driver.add("t1") == ["t1"]
    task = driver.get("t1")
    assert (task.status, task.parked, task.token) == ("pending", None, 0)
    assert (task.attempt, task.retry_count, task.recovery_count) == (0, 0, 0)
    assert (task.max_retries, task.max_recoveries) == (3, 3)
    assert (task.worker, task.last_worker, task.error, task.result) == (None, None, None, None)
    assert (task.started_at, task.completed_at, task.lease_expires_at) == (None, None, None)
    now_ms = driver.clock.now().utc_ms
    assert {task.created_at, task.updated_at, task.state_changed_at} == {task.created_at}
    assert task.created_at.timestamp() * 1000 == now_ms


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 500_000])
def test_a_payload_comes_back_whole_whatever_its_size(driver: Driver, size: int) -> None:
    driver.add("t1", payload={"text": "é" * size, "n": [None, 1.5]})
    assert driver.get("t1").payload == {"text": "é" * size, "n": [None, 1.5]}
    claimed = driver.claim_one()
    driver.settle(claimed, result="ü" * size)
    assert driver.get("t1").result == "ü" * size


def test_everything_given_is_kept(driver: Driver) -> None:
    driver.add("original")
    driver.add(
        "t1", kind="mail", queue="slow", priority=-7, group="g1", max_retries=0,
        max_recoveries=9, not_before_ms=driver.clock.now().utc_ms + 5, retry_of="original",
    )  # fmt: skip
    task = driver.get("t1")
    assert (task.kind, task.queue, task.priority, task.group) == ("mail", "slow", -7, "g1")
    assert (task.max_retries, task.max_recoveries, task.retry_of) == (0, 9, "original")
    assert task.parked == "delay"
    assert task.not_before is not None


@pytest.mark.proves("QUE-07")
def test_an_id_is_unique_and_a_duplicate_changes_nothing(driver: Driver) -> None:
    driver.add("t1", payload=1)
    with pytest.raises(InvalidInput, match="'t1' exists already"):
        driver.add("t0", "t1", payload=2)
    assert driver.store.get("t0") is None
    assert driver.get("t1").payload == 1


def test_two_new_tasks_of_one_call_cannot_share_an_id(driver: Driver) -> None:
    with pytest.raises(InvalidInput, match="'t1'"):
        driver.add("t1", "t1")
    assert driver.store.get("t1") is None


@pytest.mark.proves("QUE-07")
def test_generated_ids_sort_by_creation() -> None:
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert {task_id[14] for task_id in ids} == {"7"}


def test_adding_nothing_is_no_error(store: Store, driver: Driver) -> None:
    assert store.add([], driver.clock.now()) == []


def test_many_tasks_go_in_together_and_come_back_by_their_ids(driver: Driver) -> None:
    ids = [f"t{n}" for n in range(1000)]
    new = [new_task(task_id, payload=n) for n, task_id in enumerate(ids)]
    assert driver.store.add(new, driver.clock.now()) == ids
    assert [driver.get(task_id).payload for task_id in ("t0", "t999")] == [0, 999]
    assert driver.store.counts(None)["pending"] == 1000
