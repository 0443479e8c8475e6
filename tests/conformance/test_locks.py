"""Named locks as every backend has to keep them."""

from typing import Any

import pytest

from outlast.domain.locks import Locked, LockGrant, LockInfo, LockRequest, LockState
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.conformance.driver import PATIENCE, Driver

TTL_MS = 10_000


class Locker:
    """What a test does to the locks of a store, in one line each."""

    def __init__(self, driver: Driver) -> None:
        self._store: Store = driver.store
        self._clock: ManualClock = driver.clock

    def ask(self, worker: str, name: str = "x", own: LockGrant | None = None) -> Locked | LockInfo:
        request = LockRequest(name, worker, TTL_MS, own)
        return self._store.locks.acquire(request, self._clock.now())

    def take(self, worker: str, name: str = "x") -> LockGrant:
        answer = self.ask(worker, name)
        assert isinstance(answer, Locked)
        return answer.grant

    def extend(self, grant: LockGrant, ms: int) -> int | None:
        (ends_at_ms,) = self._store.locks.extend([(grant, ms)], self._clock.now())
        return ends_at_ms

    def give_back(self, *grants: LockGrant) -> list[bool]:
        return self._store.locks.give_back(grants, self._clock.now())

    def held(self, grant: LockGrant) -> bool:
        return self._store.locks.is_held(grant, self._clock.now())


@pytest.fixture
def locker(driver: Driver) -> Locker:
    return Locker(driver)


@pytest.mark.proves("LCK-02")
def test_a_free_lock_is_handed_out_and_a_held_one_is_refused_by_its_record(
    locker: Locker, driver: Driver
) -> None:
    answer = locker.ask("a")
    assert isinstance(answer, Locked)
    assert answer.expires_at_ms == driver.clock.now().utc_ms + TTL_MS
    refused = locker.ask("b")
    assert isinstance(refused, LockInfo)
    assert (refused.holder, refused.token, refused.left_ms) == ("a", answer.grant.token, TTL_MS)
    assert refused.state is LockState.HELD
    assert driver.store.locks.all(driver.clock.now(), PATIENCE) == [refused]
    assert driver.store.locks.get("x", driver.clock.now(), PATIENCE) == refused


@pytest.mark.proves("LCK-07")
def test_a_lock_ends_in_the_very_millisecond_it_was_taken_for(
    locker: Locker, driver: Driver
) -> None:
    first = locker.take("a")
    driver.clock.advance((TTL_MS - 1) / 1000)
    assert locker.held(first)
    assert isinstance(locker.ask("b"), LockInfo)
    assert driver.store.locks.to_free(driver.clock.now(), PATIENCE) == 0
    driver.clock.advance(0.001)
    assert not locker.held(first)
    assert driver.store.locks.to_free(driver.clock.now(), PATIENCE) == 1
    assert locker.take("b").token > first.token


@pytest.mark.proves("LCK-03", "LCK-13")
@pytest.mark.parametrize("changed", ["holder", "token", "name"])
def test_only_the_very_grant_gives_back_and_extends(
    locker: Locker, driver: Driver, changed: str
) -> None:
    grant = locker.take("a")
    locker.take("b", "y")
    wrong: dict[str, Any] = {"name": "y", "holder": grant.holder + 1, "token": grant.token + 1}
    forged = grant._replace(**{changed: wrong[changed]})
    assert locker.give_back(forged) == [False]
    assert locker.extend(forged, 60_000) is None
    assert locker.held(grant)
    assert locker.give_back(grant, grant) == [True, False]


@pytest.mark.proves("LCK-14")
def test_who_asks_with_its_own_grant_renews_it_and_keeps_its_token(
    locker: Locker, driver: Driver
) -> None:
    grant = locker.take("a")
    driver.clock.advance(5)
    again = locker.ask("a", own=grant)
    assert again == Locked(grant, driver.clock.now().utc_ms + TTL_MS)
    assert isinstance(locker.ask("a"), LockInfo)


@pytest.mark.proves("LCK-06")
def test_extending_never_brings_the_end_nearer(locker: Locker, driver: Driver) -> None:
    grant = locker.take("a")
    ends_at_ms = driver.clock.now().utc_ms + TTL_MS
    assert locker.extend(grant, 1) == ends_at_ms
    assert locker.extend(grant, TTL_MS + 1) == ends_at_ms + 1
    driver.clock.advance((TTL_MS + 1) / 1000)
    assert locker.extend(grant, TTL_MS) is None


def test_healing_frees_what_ran_out_and_spares_what_is_held(locker: Locker, driver: Driver) -> None:
    locker.take("a", "old")
    driver.clock.advance(5)
    held = locker.take("a", "new")
    driver.clock.advance(5)
    assert driver.store.recovery.is_due(driver.clock.now(), PATIENCE)
    assert driver.heal().locks_freed == 1
    assert not driver.store.recovery.is_due(driver.clock.now(), PATIENCE)
    assert locker.held(held)
    assert driver.store.locks.free_dead(driver.clock.now(), PATIENCE) == 0


@pytest.mark.slow
def test_freeing_by_force_answers_with_what_it_was(locker: Locker, driver: Driver) -> None:
    grant = locker.take("a")
    freed = driver.store.locks.free_by_force("x", "ada", "test", driver.clock.now(), PATIENCE)
    assert freed is not None
    assert (freed.holder, freed.token) == ("a", grant.token)
    again = driver.store.locks.free_by_force("x", "ada", "test", driver.clock.now(), PATIENCE)
    assert again is None
    assert not locker.held(grant)


@pytest.mark.slow
@pytest.mark.proves("LCK-12")
def test_a_lock_that_goes_with_a_lease_is_as_old_as_the_lease(
    locker: Locker, driver: Driver
) -> None:
    driver.add("t1", "t2")
    claimed = driver.claim_one("a", lock="x")
    found = driver.store.locks.get("x", driver.clock.now(), PATIENCE)
    assert found is not None
    assert (found.holder, found.task_id, found.left_ms) == ("a", "t1", claimed.lease_ms)
    driver.clock.advance(100)
    assert driver.renew(claimed)
    again = driver.store.locks.get("x", driver.clock.now(), PATIENCE)
    assert again is not None
    assert again.left_ms == claimed.lease_ms
    driver.settle(claimed)
    assert driver.store.locks.get("x", driver.clock.now(), PATIENCE) is None
    locker.take("b")
