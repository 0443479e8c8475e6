import hashlib

import pytest

from outlast import LeaseLost
from outlast.domain import codec
from outlast.domain.task import CHECKPOINT_TYPES
from tests.conformance.driver import COMPLETED, RELEASED, Driver, expiry_of

EIGHT = {
    "iteration_start", "iteration_end", "tool_executed", "llm_response", "approval_point",
    "state_transition", "manual_checkpoint", "error_boundary",
}  # fmt: skip


@pytest.mark.proves("CKP-02")
def test_each_of_the_eight_types_is_accepted(driver: Driver) -> None:
    assert set(CHECKPOINT_TYPES) == EIGHT
    driver.add("t1")
    claimed = driver.claim_one()
    for number, word in enumerate(sorted(EIGHT), start=1):
        assert driver.checkpoint(claimed, word, {"n": number}) == number
    assert driver.store.checkpoints.counts("t1") == dict.fromkeys(EIGHT, 1)


def test_a_checkpoint_keeps_data_metadata_attempt_group_and_time(driver: Driver) -> None:
    driver.add("t1", group="g1")
    claimed = driver.claim_one()
    driver.clock.advance("3s")
    driver.checkpoint(claimed, "tool_executed", {"out": [1, None]}, {"ms": 12})
    (found,) = driver.store.checkpoints.of_task("t1", None, 10)
    assert (found.task_id, found.group, found.type) == ("t1", "g1", "tool_executed")
    assert (found.data, found.metadata) == ({"out": [1, None]}, {"ms": 12})
    assert (found.sequence_number, found.attempt) == (1, 1)
    assert found.created_at.timestamp() * 1000 == driver.clock.now().utc_ms
    assert found.id


@pytest.mark.proves("CKP-06")
def test_numbers_rise_by_one_from_one_within_each_task_across_attempts(driver: Driver) -> None:
    driver.add("t1", "t2")
    one, two = driver.claim(limit=2)
    for _ in range(5):
        driver.checkpoint(one, "iteration_start")
        driver.checkpoint(two, "iteration_end")
    driver.settle(one, RELEASED)
    again = driver.claim_one()
    for _ in range(5):
        driver.checkpoint(again, "iteration_end")
    numbers = [found.sequence_number for found in driver.store.checkpoints.of_task("t1", None, 100)]
    assert numbers == list(range(1, 11))
    numbers = [found.sequence_number for found in driver.store.checkpoints.of_task("t2", None, 100)]
    assert numbers == [1, 2, 3, 4, 5]


@pytest.mark.proves("CKP-08")
@pytest.mark.parametrize("successor", ["a", "b"])
def test_a_zombie_cannot_append(driver: Driver, successor: str) -> None:
    driver.add("t1")
    zombie = driver.claim_one("a")
    driver.checkpoint(zombie, "iteration_end", 1)
    driver.lose()
    with pytest.raises(LeaseLost, match="t1"):
        driver.checkpoint(zombie, "iteration_end", "put back")
    holder = driver.claim_one(successor)
    with pytest.raises(LeaseLost, match="t1"):
        driver.checkpoint(zombie, "iteration_end", "taken")
    driver.settle(holder, COMPLETED)
    for stale in (zombie, holder):
        with pytest.raises(LeaseLost, match="t1"):
            driver.checkpoint(stale, "iteration_end", "settled")
    kept = driver.store.checkpoints.of_task("t1", None, 10)
    assert [(found.type, found.data) for found in kept] == [
        ("iteration_end", 1),
        ("error_boundary", expiry_of("a", retry=1)),
    ]


@pytest.mark.proves("CKP-05")
def test_what_was_written_never_changes_whatever_happens_to_the_task(driver: Driver) -> None:
    driver.add("t1", max_recoveries=9)
    claimed = driver.claim_one()
    for n in range(20):
        driver.checkpoint(claimed, "iteration_end", {"n": n, "text": "é" * n * 100})
    before = _fingerprints(driver, newest=100)[:20]
    for n in range(5):
        driver.lose()
        claimed = driver.claim_one()
        driver.checkpoint(claimed, "iteration_end", {"n": n, "again": True})
    driver.settle(claimed, COMPLETED, {"n": 0})
    assert _fingerprints(driver, newest=100)[:20] == before
    assert len(set(before)) == 20


def _fingerprints(driver: Driver, newest: int) -> list[str]:
    return [
        hashlib.sha256(codec.encode([one.id, one.data, one.attempt], "all").encode()).hexdigest()
        for one in driver.store.checkpoints.of_task("t1", None, newest)
    ]


@pytest.mark.proves("CKP-09", "CKP-10", "CKP-12")
def test_the_history_is_ascending_and_the_newest_is_one_call_away(driver: Driver) -> None:
    driver.add("t1", "other")
    one, other = driver.claim(limit=2)
    for word, data in [
        ("iteration_start", 1), ("iteration_end", 2), ("iteration_start", 3), ("llm_response", 4),
    ]:  # fmt: skip
        driver.checkpoint(one, word, data)
        driver.checkpoint(other, word, -data)
    assert [found.data for found in driver.store.checkpoints.of_task("t1", None, 100)] == [
        1,
        2,
        3,
        4,
    ]
    assert [found.data for found in driver.store.checkpoints.of_task("t1", None, 1)] == [4]
    assert [
        found.data for found in driver.store.checkpoints.of_task("t1", "iteration_start", 1)
    ] == [3]
    assert [found.data for found in driver.store.checkpoints.of_task("t1", "iteration_end", 1)] == [
        2
    ]
    assert [found.data for found in driver.store.checkpoints.of_task("t1", None, 2)] == [
        3,
        4,
    ]
    assert driver.store.checkpoints.of_task("t1", "error_boundary", 1) == []
    assert driver.store.checkpoints.of_task("nope", None, 1) == []


@pytest.mark.proves("CKP-13")
def test_checkpoints_are_counted_by_type(driver: Driver) -> None:
    driver.add("t1", "other")
    one, other = driver.claim(limit=2)
    for word in ("iteration_end", "tool_executed", "iteration_end"):
        driver.checkpoint(one, word)
    driver.checkpoint(other, "llm_response")
    assert driver.store.checkpoints.counts("t1") == {"iteration_end": 2, "tool_executed": 1}
    assert driver.store.checkpoints.counts("nope") == {}


def test_the_newest_of_one_type_can_be_listed_across_tasks(driver: Driver) -> None:
    driver.add("t1", "t2")
    one, two = driver.claim(limit=2)
    for n in range(3):
        driver.checkpoint(one, "error_boundary", n)
        driver.clock.advance("1ms")
        driver.checkpoint(two, "iteration_end", n)
        driver.checkpoint(two, "error_boundary", n + 10)
    found = driver.store.checkpoints.of_type("error_boundary", 4)
    assert [(one.task_id, one.data) for one in found] == [
        ("t2", 12), ("t1", 2), ("t2", 11), ("t1", 1),
    ]  # fmt: skip


def test_retention_keeps_the_newest_and_what_a_resume_needs(driver: Driver) -> None:
    driver.add("t1", "other")
    one, other = driver.claim(limit=2)
    driver.checkpoint(other, "llm_response", "spared")
    driver.checkpoint(one, "iteration_end", "old")
    driver.checkpoint(one, "iteration_end", "resume here")
    for n in range(10):
        driver.checkpoint(one, "tool_executed", n)
    assert driver.store.checkpoints.trim("t1", 3) == 8
    kept = driver.store.checkpoints.of_task("t1", None, 100)
    assert [found.data for found in kept] == ["resume here", 7, 8, 9]
    assert driver.checkpoint(one, "tool_executed") == 13
    assert len(driver.store.checkpoints.of_task("other", None, 10)) == 1
