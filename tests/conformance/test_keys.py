import pytest

from outlast import IdempotencyConflict
from outlast.domain.lifecycle import Cause, Outcome
from outlast.store.records import ClaimRequest, KeyRecord
from tests.conformance.driver import (
    BROKEN,
    COMPLETED,
    DAY_MS,
    FATAL,
    LEASE_MS,
    Driver,
    key_for,
)

CANCELLED = Cause(Outcome.CANCEL, "user")


def _key_of(driver: Driver, task_id: str) -> KeyRecord:
    (found,) = driver.store.keys.find(task_id, None, None, 10)
    return found


@pytest.mark.proves("IDM-12")
def test_ten_submissions_with_one_key_and_payload_are_one_task(driver: Driver) -> None:
    for n in range(10):
        assert driver.add(f"t{n}", payload={"a": 1}, key=key_for("k", "work", {"a": 1})) == ["t0"]
    assert driver.store.figures.counts(None)["pending"] == 1
    assert _key_of(driver, "t0").status == "pending"


@pytest.mark.proves("IDM-12")
def test_a_key_repeated_within_one_call_gives_the_same_task_twice(driver: Driver) -> None:
    assert driver.add("t1", "t2", key=key_for("k")) == ["t1", "t1"]
    assert driver.store.figures.counts(None)["pending"] == 1


@pytest.mark.proves("IDM-05")
@pytest.mark.parametrize("settled", [None, COMPLETED, FATAL])
def test_the_same_key_for_another_request_is_a_conflict_whatever_became_of_the_first(
    driver: Driver, settled: Cause | None
) -> None:
    driver.add("t1", key=key_for("k", "work", {"a": 1}))
    if settled:
        driver.settle(driver.claim_one(), settled, "cached")
    for kind, payload in (("work", {"a": 2}), ("other", {"a": 1}), ("work", None)):
        with pytest.raises(IdempotencyConflict) as conflict:
            driver.add("t2", kind=kind, key=key_for("k", kind, payload))
        assert (conflict.value.key, conflict.value.task_id) == ("k", "t1")
    assert driver.store.tasks.get("t2") is None


def test_a_conflict_within_a_batch_stores_none_of_it(driver: Driver) -> None:
    driver.add("t1", key=key_for("k"))
    with pytest.raises(IdempotencyConflict):
        driver.add("t2", "t3", key=key_for("k", "other"))
    assert driver.store.figures.counts(None)["pending"] == 1


@pytest.mark.proves("IDM-06")
def test_a_key_expires_after_its_time_to_live(driver: Driver) -> None:
    driver.add("t1", group="g", key=key_for("k"))
    key = _key_of(driver, "t1")
    assert (key.key, key.task_id, key.group) == ("k", "t1", "g")
    assert key.created_at is not None
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).total_seconds() == 24 * 3600


@pytest.mark.proves("IDM-04")
def test_a_completed_key_answers_with_the_stored_response_and_nothing_runs_again(
    driver: Driver,
) -> None:
    driver.add("t1", key=key_for("k"))
    driver.settle(driver.claim_one(), COMPLETED, {"answer": 42})
    for n in range(10):
        assert driver.add(f"again{n}", key=key_for("k")) == ["t1"]
        assert driver.claim() == []
    key = _key_of(driver, "t1")
    assert (key.status, key.response) == ("completed", {"answer": 42})
    assert key.completed_at is not None
    assert driver.get("t1").attempt == 1


@pytest.mark.proves("IDM-10")
@pytest.mark.parametrize(("after_ms", "reused"), [(-1, False), (0, True), (1, True)])
def test_an_expired_key_is_free_from_its_expiry_on(
    driver: Driver, after_ms: int, reused: bool
) -> None:
    driver.add("t1", key=key_for("k"))
    driver.settle(driver.claim_one(), COMPLETED)
    driver.clock.advance((DAY_MS + after_ms) / 1000)
    assert driver.add("t2", key=key_for("k")) == (["t2"] if reused else ["t1"])
    assert driver.claimed_ids() == (["t2"] if reused else [])


@pytest.mark.proves("IDM-10")
def test_an_expired_key_may_stand_for_another_request(driver: Driver) -> None:
    driver.add("t1", key=key_for("k", "work", 1))
    driver.settle(driver.claim_one(), COMPLETED, "old")
    driver.clock.advance(DAY_MS / 1000)
    assert driver.add("t2", key=key_for("k", "work", 2)) == ["t2"]
    key = _key_of(driver, "t2")
    assert (key.status, key.response, key.completed_at) == ("pending", None, None)
    assert driver.store.keys.find("t1", None, None, 10) == []


@pytest.mark.proves("IDM-10")
@pytest.mark.parametrize("ended", [FATAL, CANCELLED])
def test_a_failed_key_lets_the_same_request_run_again(driver: Driver, ended: Cause) -> None:
    driver.add("t1", key=key_for("k"))
    if ended is CANCELLED:
        driver.store.tasks.settle_by_id("t1", CANCELLED, driver.clock.now())
    else:
        driver.settle(driver.claim_one(), ended)
    assert _key_of(driver, "t1").status == "failed"
    assert driver.add("t2", key=key_for("k")) == ["t2"]
    assert driver.claimed_ids() == ["t2"]


def test_a_failed_key_keeps_the_error_as_its_response(driver: Driver) -> None:
    driver.add("t1", key=key_for("k"))
    driver.settle(driver.claim_one(), FATAL)
    assert _key_of(driver, "t1").response == {"error": "broken"}


def test_a_key_stays_pending_through_retries_and_losses(driver: Driver) -> None:
    driver.add("t1", key=key_for("k"))
    driver.settle(driver.claim_one(), BROKEN)
    driver.claim_one()
    driver.lose()
    assert _key_of(driver, "t1").status == "pending"
    assert driver.add("t2", key=key_for("k")) == ["t1"]


@pytest.mark.proves("IDM-15")
def test_the_key_of_a_task_that_lives_past_its_expiry_is_neither_purged_nor_reused(
    driver: Driver,
) -> None:
    driver.add("pending", key=key_for("k1"))
    driver.add("running", key=key_for("k2"), priority=1)
    running = driver.claim_one(lease_ms=10 * DAY_MS)
    driver.clock.advance("2d")
    assert driver.store.keys.purge(driver.clock.now(), 100) == 0
    assert driver.add("new1", key=key_for("k1")) == ["pending"]
    assert driver.add("new2", key=key_for("k2")) == ["running"]
    driver.settle(running, COMPLETED)
    assert driver.store.keys.purge(driver.clock.now(), 100) == 1
    assert driver.store.keys.find("running", None, None, 10) == []
    assert _key_of(driver, "pending").key == "k1"


def test_a_purge_removes_expired_keys_of_ended_tasks_within_its_limit(driver: Driver) -> None:
    for n in range(5):
        driver.add(f"t{n}", key=key_for(f"k{n}"))
    for claimed in driver.claim(limit=4):
        driver.settle(claimed, FATAL if claimed.task_id == "t0" else COMPLETED)
    assert driver.store.keys.purge(driver.clock.now(), 100) == 0
    driver.clock.advance(DAY_MS / 1000)
    assert driver.store.keys.purge(driver.clock.now(), 3) == 3
    assert driver.store.keys.purge(driver.clock.now(), 3) == 1
    assert driver.store.keys.purge(driver.clock.now(), 3) == 0


def test_the_key_of_a_task_that_was_taken_is_held_until_it_expires(driver: Driver) -> None:
    driver.add("t1", key=key_for("k"))
    driver.store.claims.take(ClaimRequest("w1", 1, ("default",)), driver.clock.now())
    with pytest.raises(IdempotencyConflict, match="removed"):
        driver.add("t2", key=key_for("k"))
    driver.clock.advance(DAY_MS / 1000)
    assert driver.add("t2", key=key_for("k")) == ["t2"]


def test_keys_are_listed_by_task_group_and_status_newest_first(driver: Driver) -> None:
    for n in range(4):
        driver.add(f"t{n}", group="g" if n < 3 else "h", key=key_for(f"k{n}"))
        driver.clock.advance("1s")
    driver.settle(driver.claim_one(lease_ms=LEASE_MS), COMPLETED)
    assert _texts(driver.store.keys.find(None, "g", None, 10)) == ["k2", "k1", "k0"]
    assert _texts(driver.store.keys.find(None, "g", None, 2)) == ["k2", "k1"]
    assert _texts(driver.store.keys.find(None, None, "pending", 10)) == ["k3", "k2", "k1"]
    assert _texts(driver.store.keys.find(None, None, "completed", 10)) == ["k0"]
    assert _texts(driver.store.keys.find("t3", None, None, 10)) == ["k3"]


def _texts(keys: list[KeyRecord]) -> list[str]:
    return [key.key for key in keys]
