from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

from outlast import Serves, StuckHandler, WorkerInfo, WorkerState
from outlast.clock import Instant
from outlast.domain.task import utc
from outlast.store.records import Claimed
from tests.conformance.driver import COMPLETED, LEASE_MS, PATIENCE, RELEASED, Driver

STALE_MS = PATIENCE.stale_ms
SERVES = '{"queues": ["default", "gpu"], "kinds": ["mail"], "concurrency": 8}'


def beat(driver: Driver, leases: Sequence[Claimed], worker: str = "w1") -> list[bool]:
    grants = [(one.grant, one.lease_ms) for one in leases]
    return driver.store.workers.beat(worker, grants, driver.clock.now())


def the_worker(driver: Driver) -> WorkerInfo:
    (found,) = driver.store.workers.newest(driver.clock.now(), PATIENCE, 100)
    return found


def test_one_beat_dates_the_worker_and_pushes_all_its_leases_out(driver: Driver) -> None:
    driver.add("t1", "t2")
    driver.add("short", kind="short")
    leases = driver.claim(limit=2)
    leases += driver.claim(limit=1, lease_ms=1000)
    driver.clock.advance("10s")
    assert beat(driver, leases) == [True, True, True]
    now = utc(driver.clock.now().utc_ms)
    assert now is not None
    tasks = [driver.get(one.task_id) for one in leases]
    assert [task.heartbeat_at for task in tasks] == [now] * 3
    lengths_ms = (LEASE_MS, LEASE_MS, 1000)
    assert [task.lease_expires_at for task in tasks] == [
        now + timedelta(milliseconds=length) for length in lengths_ms
    ]
    assert the_worker(driver).beat_at == now


def test_a_renewed_lease_is_not_taken_for_one_that_ran_out(driver: Driver) -> None:
    """By the monotonic clock, which decides, and not by the times that are shown."""
    driver.add("t1", "t2")
    kept, lost = driver.claim(limit=2)
    driver.clock.advance(LEASE_MS / 1000 - 1)
    assert beat(driver, [kept]) == [True]
    driver.clock.advance(LEASE_MS / 1000 - 1)
    assert driver.heal().put_back == 1
    assert driver.get(kept.task_id).status == "running"
    assert driver.get(lost.task_id).status == "pending"


def test_a_beat_never_shortens_a_lease(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    before = driver.get("t1").lease_expires_at
    assert driver.store.workers.beat("w1", [(claimed.grant, 1000)], driver.clock.now()) == [True]
    assert driver.get("t1").lease_expires_at == before


def test_a_beat_names_the_leases_that_are_no_longer_current_and_touches_none_of_them(
    driver: Driver,
) -> None:
    driver.add("held", "done", "put back", "given away")
    held, done, back, away = leases = driver.claim(limit=4)
    driver.settle(done, COMPLETED)
    driver.settle(away, RELEASED)
    driver.settle(back, RELEASED)
    driver.claim("other", limit=1)
    driver.clock.advance("10s")
    before = {one.task_id: asdict(driver.get(one.task_id)) for one in leases[1:]}
    assert beat(driver, leases) == [True, False, False, False]
    assert {one.task_id: asdict(driver.get(one.task_id)) for one in leases[1:]} == before
    assert driver.store.leases.current_among([one.grant for one in leases]) == [True] + [False] * 3
    stale = held.grant._replace(token=held.grant.token - 1)
    stranger = held.grant._replace(holder=held.grant.holder + 1)
    assert driver.store.leases.current_among([stale, held.grant, stranger]) == [
        False,
        True,
        False,
    ]


def test_no_leases_are_asked_about_and_none_are_renewed(driver: Driver) -> None:
    assert driver.store.leases.current_among([]) == []
    assert beat(driver, []) == []
    assert the_worker(driver).name == "w1"


def test_with_a_clock_a_beat_counts_from_the_moment_the_write_lock_was_had(driver: Driver) -> None:
    driver.add("t1")
    claimed = driver.claim_one()
    asked_at = driver.clock.now()

    def later() -> Instant:
        return Instant(asked_at.utc_ms + 7000, asked_at.mono_ms + 7000)

    grants = [(claimed.grant, claimed.lease_ms)]
    assert driver.store.workers.beat("w1", grants, asked_at, clock=later) == [True]
    assert driver.get("t1").heartbeat_at == utc(asked_at.utc_ms + 7000)


def test_what_a_worker_serves_stays_until_it_says_otherwise(driver: Driver) -> None:
    now = driver.clock.now()
    stuck = '[{"task_id": "t9", "kind": "mail", "since_ms": 1000}]'
    driver.store.workers.beat("w1", [], now, serves=SERVES, stuck=stuck, progress='{"done": 1}')
    worker = the_worker(driver)
    since = utc(1000)
    assert since is not None
    assert worker.serves == Serves(("default", "gpu"), ("mail",), 8)
    assert worker.stuck == (StuckHandler("t9", "mail", since),)
    assert worker.progress == {"done": 1}
    beat(driver, [])
    worker = the_worker(driver)
    assert worker.serves == Serves(("default", "gpu"), ("mail",), 8)
    assert (worker.stuck, worker.progress) == ((), None)


def test_a_worker_takes_what_its_queues_and_its_kinds_allow() -> None:
    some = Serves(("default", "gpu"), ("mail",), 8)
    assert some.takes("mail", "gpu")
    assert not some.takes("mail", "other")
    assert not some.takes("scan", "gpu")
    assert Serves(("gpu",), None, None).takes("anything", "gpu")


def test_a_beat_by_hand_names_the_first_of_its_tasks_that_is_there(driver: Driver) -> None:
    driver.add("t1", "t2")
    now = driver.clock.now()
    driver.store.workers.heartbeat("w1", ["gone", "t2", "t1"], '"half way"', now)
    worker = the_worker(driver)
    assert (worker.beat_task_id, worker.progress) == ("t2", "half way")
    driver.store.workers.heartbeat("w1", [], None, now)
    worker = the_worker(driver)
    assert (worker.beat_task_id, worker.progress) == (None, None)
    assert driver.get("t2").status == "pending"


def test_a_beat_by_hand_renews_nothing(driver: Driver) -> None:
    driver.add("t1")
    driver.claim_one()
    before = asdict(driver.get("t1"))
    driver.clock.advance("10s")
    driver.store.workers.heartbeat("w1", ["t1"], None, driver.clock.now())
    assert asdict(driver.get("t1")) == before
    assert driver.lose().put_back == 1


def test_workers_are_listed_newest_first_and_each_shows_what_it_holds(driver: Driver) -> None:
    driver.add(*(f"t{n}" for n in range(5)))
    driver.claim("first", limit=2)
    driver.clock.advance("1s")
    driver.claim("second", limit=3)
    second, first = driver.store.workers.newest(driver.clock.now(), PATIENCE, 100)
    assert (first.name, first.task_ids, first.task_count) == ("first", ("t0", "t1"), 2)
    assert (second.name, second.task_ids) == ("second", ("t2", "t3", "t4"))
    assert first.incarnation == second.incarnation
    assert first.state is second.state is WorkerState.ALIVE
    assert (first.silent_seconds, second.silent_seconds) == (1.0, 0.0)
    named = driver.store.workers.living(driver.clock.now(), PATIENCE, "first")
    assert [one.name for one in named] == ["first"]


def test_a_worker_is_stale_when_its_last_beat_is_older_than_the_limit(driver: Driver) -> None:
    beat(driver, [])
    driver.clock.advance(STALE_MS / 1000)
    assert the_worker(driver).state is WorkerState.ALIVE
    driver.clock.advance(0.001)
    assert the_worker(driver).state is WorkerState.STALE
    assert len(driver.store.workers.living(driver.clock.now(), PATIENCE, None)) == 1
    beat(driver, [])
    assert the_worker(driver).state is WorkerState.ALIVE


def test_a_wall_clock_that_was_set_makes_no_worker_stale(driver: Driver) -> None:
    beat(driver, [])
    driver.clock.step_utc(3600)
    assert the_worker(driver).state is WorkerState.ALIVE
    assert driver.store.figures.stats(driver.clock.now(), STALE_MS).silent_workers == ()
