from pathlib import Path

import pytest

from outlast import Outlast
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows


def _claims_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    leases = app.claim("victim")
    say([[lease.task_id, lease.attempt] for lease in leases])
    hear()


def _prefetches_begins_one_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    leases = app.prefetch("victim", limit=100)
    leases[40].start()
    say(leases[40].task_id)
    hear()


def _completes_some_of_a_batch_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    leases = app.prefetch("victim", limit=10)
    for lease in leases[:3]:
        lease.start()
    leases[0].complete()
    leases[1].release()
    say([lease.task_id for lease in leases])
    hear()


@pytest.mark.proves("RTY-02")
def test_a_task_that_kills_its_worker_was_charged_before_it_began(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="t1")
    with Child(_claims_and_waits, database) as child:
        assert child.hear() == [["t1", 1]]
        child.kill()
    assert foreign_rows(database, "SELECT attempt FROM tasks WHERE id = 't1'") == [[1]]
    app.heal()
    assert (app.get("t1").attempt, app.get("t1").recovery_count) == (1, 1)


@pytest.mark.proves("RTY-02")
def test_the_99_prefetched_neighbours_of_a_poison_task_are_not_charged(
    app: Outlast, database: Path
) -> None:
    ids = app.enqueue_many("work", range(100))
    with Child(_prefetches_begins_one_and_waits, database) as child:
        poison = child.hear()
        assert poison == ids[40]
        child.kill()
    stats = app.heal()
    assert (stats.entries_reclaimed, stats.entries_failed) == (100, 0)
    charged = [
        task for task in app.tasks(limit=100) if (task.attempt, task.recovery_count) != (0, 0)
    ]
    assert [(task.id, task.attempt, task.recovery_count) for task in charged] == [(poison, 1, 1)]
    assert app.history(ids[0])[-1].reason == "never_started"
    assert [lease.task_id for lease in app.claim("w", limit=100)] == ids


@pytest.mark.proves("RTY-02")
def test_what_was_settled_before_the_crash_is_neither_charged_nor_refunded_again(
    app: Outlast, database: Path
) -> None:
    app.enqueue_many("work", range(10))
    with Child(_completes_some_of_a_batch_and_waits, database) as child:
        done, released, begun, *waiting = child.hear()
        child.kill()
    assert app.heal().entries_reclaimed == 8
    assert (app.get(done).status, app.get(done).attempt) == ("completed", 1)
    assert (app.get(released).attempt, app.get(released).recovery_count) == (0, 0)
    assert (app.get(begun).attempt, app.get(begun).recovery_count) == (1, 1)
    assert {app.get(one).attempt for one in waiting} == {0}


@pytest.mark.proves("RTY-03", "RTY-04")
def test_a_poison_task_kills_four_workers_then_fails_and_the_good_ones_run(
    app: Outlast, database: Path
) -> None:
    app.enqueue("poison", id="poison", priority=9)
    app.enqueue_many("good", range(5))
    for attempt in (1, 2, 3, 4):
        with Child(_claims_and_waits, database) as child:
            assert child.hear() == [["poison", attempt]]
            child.kill()
    leases = app.claim("w", limit=9)
    assert [lease.kind for lease in leases] == ["good"] * 5
    assert app.complete_many((lease, None) for lease in leases) == [True] * 5
    task = app.get("poison")
    assert (task.status, task.attempt, task.recovery_count) == ("failed", 4, 3)
    assert task.retry_count == 0
    assert app.history("poison")[-1].reason == "max_retries_exceeded"
    assert "died 4 of 4 times in kind `poison`" in (task.error or "")
    app.close()
    assert_sound(database)


@pytest.mark.proves("RTY-01")
def test_after_the_first_crash_the_counters_say_so_and_the_view_shows_one_retry(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="t1")
    with Child(_claims_and_waits, database) as child:
        child.hear()
        child.kill()
    (lease,) = app.claim("w")
    assert lease.attempt == 2
    task = app.get("t1")
    assert (task.attempt, task.recovery_count, task.retry_count) == (2, 1, 0)
    query = "SELECT retry_count FROM work_items WHERE work_item_id = 't1'"
    assert foreign_rows(database, query) == [[1]]
