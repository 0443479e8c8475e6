from dataclasses import asdict
from datetime import timedelta

import pytest

from outlast import LeaseLost
from outlast.domain.lifecycle import Cause, Outcome
from outlast.store.records import Grant, Healed
from tests.conformance.driver import BROKEN, COMPLETED, LEASE_MS, PATIENCE, RELEASED, Driver


@pytest.mark.proves("CLM-04")
def test_every_claim_of_a_task_has_a_higher_token(driver: Driver) -> None:
    driver.add("t1", max_retries=50, max_recoveries=50)
    tokens = []
    for n in range(12):
        claimed = driver.claim_one(f"w{n % 3}")
        tokens.append(claimed.grant.token)
        if n % 3 == 0:
            driver.settle(claimed, RELEASED)
        elif n % 3 == 1:
            driver.settle(claimed, BROKEN)
        else:
            driver.lose()
    assert tokens == sorted(set(tokens))


@pytest.mark.proves("CLM-04")
@pytest.mark.parametrize("successor", ["a", "b"])
def test_a_zombies_every_write_is_refused_and_the_new_holders_result_stands(
    driver: Driver, successor: str
) -> None:
    """A worker that came back under its old name is no better than a stranger."""
    driver.add("t1")
    zombie = driver.claim_one("a")
    driver.lose()
    holder = driver.claim_one(successor)
    before = driver.get("t1")
    assert driver.renew(zombie, stage="still here") is False
    for write in (COMPLETED, BROKEN, RELEASED):
        with pytest.raises(LeaseLost):
            driver.settle(zombie, write, "stale")
    with pytest.raises(LeaseLost):
        driver.checkpoint(zombie, "manual_checkpoint")
    assert driver.get("t1") == before
    kept = driver.store.checkpoints.of_task("t1", None, 10)
    assert [(found.type, found.attempt) for found in kept] == [("error_boundary", 1)]
    assert driver.settle(holder, COMPLETED, "fresh")
    assert driver.get("t1").result == "fresh"


@pytest.mark.proves("CLM-05")
def test_a_renewal_pushes_the_lease_out_from_now_and_notes_the_beat(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    before = driver.get("t1")
    driver.clock.advance("200s")
    assert driver.renew(claimed, stage="testing")
    task = driver.get("t1")
    now = before.created_at + timedelta(seconds=200)
    assert task.heartbeat_at == now
    assert task.lease_expires_at == now + timedelta(milliseconds=LEASE_MS)
    assert (task.stage, task.updated_at) == ("testing", now)
    untouched = {"heartbeat_at", "lease_expires_at", "stage", "updated_at"}
    assert _without(asdict(task), untouched) == _without(asdict(before), untouched)
    driver.clock.advance("200s")
    assert driver.heal().put_back == 0


def _without(fields: dict[str, object], names: set[str]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in names}


@pytest.mark.proves("CLM-05")
def test_only_task_holder_and_token_together_renew_a_running_task(driver: Driver) -> None:
    driver.add("t1", "t2")
    mine = driver.claim_one("w1").grant
    theirs = driver.claim_one("w2").grant
    before = driver.store.tasks.find(None, None, None, 10)
    driver.clock.advance("10s")
    forged = [
        Grant(mine.seq, theirs.holder, mine.token),
        Grant(theirs.seq, mine.holder, theirs.token),
        Grant(mine.seq, mine.holder, mine.token + 1),
        Grant(mine.seq, mine.holder, mine.token - 1),
        Grant(mine.seq + 99, mine.holder, mine.token),
    ]
    assert driver.store.leases.renew(forged, driver.clock.now(), LEASE_MS) == [False] * 5
    assert driver.store.tasks.find(None, None, None, 10) == before


@pytest.mark.proves("CLM-05")
def test_a_settled_task_cannot_be_renewed(driver: Driver) -> None:
    driver.add("t1", "t2", "t3")
    ended = driver.claim(limit=3)
    driver.settle(ended[0], COMPLETED)
    driver.settle(ended[1], RELEASED)
    driver.store.tasks.settle_by_id("t3", Cause(Outcome.CANCEL, "user"), driver.clock.now())
    grants = [one.grant for one in ended]
    assert driver.store.leases.renew(grants, driver.clock.now(), LEASE_MS) == [False] * 3


def test_one_call_renews_many_leases_and_says_which_are_lost(driver: Driver) -> None:
    driver.add("t1", "t2", "t3")
    leases = driver.claim(limit=3)
    driver.settle(leases[1])
    driver.clock.advance("100s")
    grants = [one.grant for one in leases]
    assert driver.store.leases.renew(grants, driver.clock.now(), LEASE_MS) == [
        True,
        False,
        True,
    ]
    driver.clock.advance("250s")
    assert driver.heal().put_back == 0


@pytest.mark.proves("CLM-07")
def test_a_late_completion_counts_as_long_as_nobody_took_the_task(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    driver.clock.advance("1h")
    assert driver.settle(claimed, COMPLETED, "late")
    assert driver.get("t1").result == "late"


@pytest.mark.proves("CLM-07")
def test_a_late_completion_is_refused_once_the_task_was_taken_back(driver: Driver) -> None:
    driver.add("t1")
    late = driver.claim_one("a")
    driver.lose()
    with pytest.raises(LeaseLost):
        driver.settle(late, COMPLETED, "late")
    taken = driver.claim_one("b")
    with pytest.raises(LeaseLost):
        driver.settle(late, COMPLETED, "late")
    assert driver.settle(taken, COMPLETED, "in time")


@pytest.mark.proves("CLM-08")
@pytest.mark.parametrize(("after_ms", "put_back"), [(-1, 0), (0, 1), (1, 1)])
def test_a_lease_is_held_before_its_expiry_and_free_from_it_on(
    driver: Driver, after_ms: int, put_back: int
) -> None:
    driver.add("t1")
    driver.claim_one()
    driver.clock.advance((LEASE_MS + after_ms) / 1000)
    assert driver.store.recovery.is_due(driver.clock.now(), PATIENCE) is bool(put_back)
    assert driver.heal().put_back == put_back
    assert driver.get("t1").status == ("pending" if put_back else "running")


@pytest.mark.proves("CLM-09")
def test_a_live_lease_is_taken_by_nobody(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one("w1")
    before = driver.get("t1")
    for _ in range(5):
        driver.clock.advance("59s")
        assert driver.heal() == Healed()
        assert driver.claim("w2") == []
    assert driver.get("t1") == before
    assert driver.settle(claimed)
