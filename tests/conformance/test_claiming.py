from datetime import timedelta

import pytest

from outlast.domain.lifecycle import Parked
from outlast.store.records import ClaimRequest, Healed
from tests.conformance.driver import LEASE_MS, Driver


@pytest.mark.proves("CLM-02")
def test_a_claim_stamps_every_lease_field_and_returns_the_payload(driver: Driver) -> None:
    driver.add("t1", kind="mail", group="g", payload={"to": "ada"})
    driver.clock.advance("7s")
    claimed = driver.claim_one("w1")
    assert (claimed.task_id, claimed.kind, claimed.group) == ("t1", "mail", "g")
    assert (claimed.payload, claimed.attempt) == ('{"to":"ada"}', 1)
    task = driver.get("t1")
    now = task.created_at + timedelta(seconds=7)
    assert (task.status, task.worker, task.last_worker) == ("running", "w1", "w1")
    assert (task.lease_acquired_at, task.heartbeat_at, task.started_at) == (now, now, now)
    assert task.lease_expires_at == now + timedelta(milliseconds=LEASE_MS)
    assert (task.attempt, task.token) == (1, claimed.grant.token)
    assert task.state_changed_at == now


@pytest.mark.proves("CLM-14")
def test_a_claim_is_empty_only_when_nothing_is_eligible(driver: Driver) -> None:
    assert driver.claim() == []
    driver.add("t1", "t2")
    assert driver.claimed_ids(limit=1) == ["t1"]
    assert driver.claimed_ids(limit=1) == ["t2"]
    assert driver.claim() == []
    driver.add("t3")
    assert driver.claimed_ids(limit=1) == ["t3"]


def test_a_claim_takes_no_more_than_it_asked_for(driver: Driver) -> None:
    driver.add(*(f"t{n}" for n in range(10)))
    assert len(driver.claim(limit=4)) == 4
    assert len(driver.claim(limit=100)) == 6


@pytest.mark.proves("CLM-10")
def test_one_worker_may_hold_many_leases_and_is_never_handed_its_own_again(driver: Driver) -> None:
    driver.add(*(f"t{n}" for n in range(1, 8)))
    first = driver.claimed_ids("w1", limit=5)
    assert first == ["t1", "t2", "t3", "t4", "t5"]
    assert driver.heal().put_back == 0
    assert driver.claimed_ids("w1", limit=1) == ["t6"]
    assert [task.id for task in driver.store.tasks.held_by("w1")] == [*first, "t6"]


@pytest.mark.proves("CLM-10")
def test_settling_one_of_many_leases_leaves_the_others_alone(driver: Driver) -> None:
    driver.add("t1", "t2", "t3")
    first, second, third = driver.claim(limit=3)
    assert driver.settle(second)
    assert driver.settle(third)
    assert driver.renew(first)
    assert [task.id for task in driver.store.tasks.held_by("w1")] == ["t1"]


@pytest.mark.proves("CLM-15")
def test_two_sessions_each_see_only_their_own_tasks(driver: Driver) -> None:
    driver.add("a1", "a2", group="a")
    driver.add("b1", group="b")
    driver.add("free")
    assert driver.claimed_ids("wb", group="b") == ["b1"]
    assert driver.claimed_ids("wb", group="b") == []
    assert driver.claimed_ids("wa", group="a") == ["a1", "a2"]
    assert driver.claimed_ids("any") == ["free"]


@pytest.mark.proves("CLM-15")
def test_a_claim_narrowed_to_kinds_sees_those_and_merges_them_in_order(driver: Driver) -> None:
    driver.add("mail1", kind="mail")
    driver.add("scan1", kind="scan")
    driver.add("chat1", kind="chat")
    driver.add("mail2", kind="mail", priority=5)
    driver.add("scan2", kind="scan", priority=5)
    both = driver.claimed_ids(kinds=("scan", "mail"))
    assert both == ["mail2", "scan2", "mail1", "scan1"]
    assert driver.claimed_ids(kinds=("scan", "mail")) == []
    assert driver.claimed_ids(kinds=("nothing",)) == []
    assert driver.claimed_ids() == ["chat1"]


@pytest.mark.proves("CLM-15")
def test_group_and_kinds_narrow_together(driver: Driver) -> None:
    driver.add("a-mail", kind="mail", group="a")
    driver.add("a-scan", kind="scan", group="a")
    driver.add("b-mail", kind="mail", group="b")
    assert driver.claimed_ids(kinds=("mail", "chat"), group="a") == ["a-mail"]


def test_queues_are_served_in_the_order_given(driver: Driver) -> None:
    driver.add("slow1", queue="slow", priority=9)
    driver.add("fast1", "fast2", queue="fast")
    driver.add("other", queue="other")
    assert driver.claimed_ids(limit=2, queues=("fast", "slow")) == ["fast1", "fast2"]
    assert driver.claimed_ids(queues=("fast", "slow")) == ["slow1"]
    assert driver.claimed_ids() == []


@pytest.mark.proves("CLM-16")
def test_the_tasks_a_worker_holds_can_be_listed(driver: Driver) -> None:
    driver.add("t1", "t2", "t3", "t4")
    one, *_ = driver.claim("w1", limit=2)
    driver.claim("w2", limit=1)
    assert [task.id for task in driver.store.tasks.held_by("w1")] == ["t1", "t2"]
    assert [task.id for task in driver.store.tasks.held_by("w2")] == ["t3"]
    driver.settle(one)
    assert [task.id for task in driver.store.tasks.held_by("w1")] == ["t2"]
    assert driver.store.tasks.held_by("nobody") == []


@pytest.mark.proves("QUE-27")
def test_a_take_removes_the_best_tasks_and_leaves_recovery_nothing_to_do(driver: Driver) -> None:
    driver.add("t1", payload={"n": 1})
    driver.add("urgent", priority=5)
    driver.add("t2", "t3")
    driver.store.tasks.park("t3", Parked.HOLD, driver.clock.now())
    taken = driver.store.claims.take(_request(2), driver.clock.now())
    assert [(task.id, task.payload) for task in taken] == [("urgent", None), ("t1", {"n": 1})]
    assert driver.store.tasks.get("t1") is None
    assert driver.store.tasks.history("t1") is None
    assert [task.id for task in driver.store.claims.take(_request(9), driver.clock.now())] == ["t2"]
    assert driver.store.claims.take(_request(9), driver.clock.now()) == []
    assert driver.lose() == Healed()
    assert driver.store.figures.counts(None)["pending"] == 1


def test_a_take_is_narrowed_like_a_claim(driver: Driver) -> None:
    driver.add("a", kind="mail", group="g1")
    driver.add("b", kind="scan", group="g1")
    driver.add("c", kind="mail", group="g2")
    taken = driver.store.claims.take(_request(9, kinds=("mail",), group="g1"), driver.clock.now())
    assert [task.id for task in taken] == ["a"]


def _request(
    limit: int, kinds: tuple[str, ...] | None = None, group: str | None = None
) -> ClaimRequest:
    return ClaimRequest("w1", limit, ("default",), kinds, group)
