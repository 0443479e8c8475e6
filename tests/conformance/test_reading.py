import pytest

from outlast import Status
from outlast.domain.lifecycle import Cause, Outcome
from tests.conformance.driver import BROKEN, COMPLETED, FATAL, LEASE_MS, PATIENCE, RELEASED, Driver

CANCELLED = Cause(Outcome.CANCEL, "user")
NOTHING = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}


def _one_of_each(driver: Driver, **fields: object) -> None:
    driver.add("completed", "failed", "cancelled", "running", "pending", **fields)
    done, broken, _, _ = driver.claim(limit=4, queues=(str(fields.get("queue", "default")),))
    driver.settle(done, COMPLETED)
    driver.settle(broken, FATAL)
    driver.store.tasks.settle_by_id("cancelled", CANCELLED, driver.clock.now())


def test_counts_show_every_status_overall_and_by_queue(driver: Driver) -> None:
    assert driver.store.figures.counts(None) == NOTHING
    assert driver.store.figures.counts("default") == NOTHING
    _one_of_each(driver)
    driver.add("elsewhere", queue="other")
    assert driver.store.figures.counts("default") == dict.fromkeys(NOTHING, 1)
    assert driver.store.figures.counts("other") == NOTHING | {"pending": 1}
    assert driver.store.figures.counts(None) == dict.fromkeys(NOTHING, 1) | {"pending": 2}


@pytest.mark.proves("QUE-24")
def test_a_listing_is_newest_first_and_filtered_by_status_queue_and_group(driver: Driver) -> None:
    _one_of_each(driver, group="g")
    driver.add("later", queue="other", group="g")
    find = driver.store.tasks.find
    everything = [task.id for task in find(None, None, None, 100)]
    assert everything == ["later", "pending", "running", "cancelled", "failed", "completed"]
    for status in Status:
        wanted = [status.value] if status is not Status.PENDING else ["later", "pending"]
        assert [task.id for task in find(status, None, None, 100)] == wanted
        assert [task.id for task in find(status, None, "g", 100)] == wanted
        assert [task.id for task in find(status, "default", None, 100)] == [status.value]
        assert find(status, None, "no such group", 100) == []
    assert [task.id for task in find(None, "other", "g", 100)] == ["later"]
    assert [task.id for task in find(None, None, None, 2)] == everything[:2]


@pytest.mark.proves("QUE-22")
def test_every_move_is_one_row_of_history_with_all_that_belongs_to_it(driver: Driver) -> None:
    driver.add("t1")
    assert driver.store.tasks.history("t1") == []
    driver.settle(driver.claim_one("a"), RELEASED)
    driver.clock.advance("1s")
    driver.settle(driver.claim_one("b"), BROKEN)
    driver.claim_one("c")
    driver.lose()
    last = driver.claim_one("d")
    driver.settle(last, COMPLETED)
    moves = driver.store.tasks.history("t1") or []
    seen = [
        (m.from_status.value, m.to_status.value, m.actor, m.reason, m.attempt, m.worker, m.error)
        for m in moves
    ]
    ran_out = "the lease of worker c ran out"
    assert seen == [
        ("pending", "running", "worker", "claimed", 1, "a", None),
        ("running", "pending", "worker", "released", 0, "a", None),
        ("pending", "running", "worker", "claimed", 1, "b", None),
        ("running", "pending", "worker", "retry", 1, "b", "broken"),
        ("pending", "running", "worker", "claimed", 2, "c", None),
        ("running", "pending", "system/recovery", "lease_expired_retry", 2, "c", ran_out),
        ("pending", "running", "worker", "claimed", 3, "d", None),
        ("running", "completed", "worker", "completed", 3, "d", None),
    ]
    assert [m.token for m in moves] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert moves[-1].at == driver.get("t1").completed_at
    assert [m.at for m in moves] == sorted(m.at for m in moves)


@pytest.mark.proves("QUE-22")
def test_moves_nobody_holds_a_lease_for_are_logged_too(driver: Driver) -> None:
    driver.add("t1")
    driver.store.tasks.settle_by_id("t1", CANCELLED, driver.clock.now())
    (move,) = driver.store.tasks.history("t1") or []
    assert (move.from_status, move.to_status, move.actor) == ("pending", "cancelled", "user")
    assert (move.reason, move.worker) == ("cancelled", None)
    assert driver.store.tasks.history("nope") is None


@pytest.mark.slow
@pytest.mark.proves("QUE-08")
def test_a_group_of_three_is_done_only_when_all_three_are_final(driver: Driver) -> None:
    driver.add("t1", "t2", "t3", group="g")
    driver.add("stranger", group="h")
    assert _group(driver) == ("pending", False)
    one, two = driver.claim(limit=2)
    assert _group(driver) == ("running", False)
    driver.settle(one, COMPLETED)
    driver.settle(two, COMPLETED)
    assert _group(driver) == ("running", False)
    driver.settle(driver.claim_one(), COMPLETED)
    assert _group(driver) == ("completed", True)
    driver.add("t4", group="g")
    assert _group(driver) == ("running", False)
    driver.store.tasks.settle_by_id("t4", CANCELLED, driver.clock.now())
    assert _group(driver) == ("cancelled", True)
    assert driver.store.tasks.group("nope") is None


def _group(driver: Driver) -> tuple[str, bool]:
    group = driver.store.tasks.group("g")
    assert group is not None
    assert sum(group.counts.values()) in (3, 4)
    return group.status.value, group.done


@pytest.mark.slow
def test_how_many_come_first_counts_eligible_tasks_of_the_same_queue(driver: Driver) -> None:
    driver.add("first", "second")
    driver.add("urgent", priority=2)
    driver.add("delayed", not_before_ms=driver.clock.now().utc_ms + 9000)
    driver.add("elsewhere", queue="other", priority=9)
    driver.add("last")
    ahead = [driver.store.tasks.ahead_of(driver.get(one)) for one in ("urgent", "first", "last")]
    assert ahead == [(0, 0), (1, 0), (1, 2)]


def test_resolving_tells_what_is_stored_from_what_is_not(driver: Driver) -> None:
    driver.add("t1", payload=1)
    found = driver.store.tasks.resolve("t1")
    assert found == driver.get("t1")
    assert driver.store.tasks.resolve("never stored") is None


@pytest.mark.slow
def test_the_holder_of_a_running_task_is_named_and_judged(driver: Driver) -> None:
    driver.add("t1", "t2")
    driver.claim_one("worker-7")
    driver.clock.advance("3s")
    holder = driver.store.workers.holder_of(driver.get("t1"), driver.clock.now(), PATIENCE)
    assert holder is not None
    assert (holder.name, holder.state, holder.silent_ms) == ("worker-7", "alive", 3000)
    assert (holder.is_this_process, holder.waits_for_its_turn) == (True, False)
    assert not holder.lease_ran_out
    driver.clock.advance(LEASE_MS / 1000 - 3)
    holder = driver.store.workers.holder_of(driver.get("t1"), driver.clock.now(), PATIENCE)
    assert holder is not None
    assert holder.lease_ran_out
    assert driver.store.workers.holder_of(driver.get("t2"), driver.clock.now(), PATIENCE) is None


def test_a_prefetched_task_waits_for_its_turn_until_its_start_is_noted(driver: Driver) -> None:
    driver.add("t1", "t2")
    begun, _ = driver.claim(limit=2, started=False)
    driver.store.leases.note_start(begun.grant)
    waits = []
    for task_id in ("t1", "t2"):
        holder = driver.store.workers.holder_of(driver.get(task_id), driver.clock.now(), PATIENCE)
        assert holder is not None
        waits.append(holder.waits_for_its_turn)
    assert waits == [False, True]
