"""Workers that are killed or told to stop: nothing lingers, and nobody else pays."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast import Outlast
from tests.crash.workers.working import (
    WorkerChild,
    assert_history_is_sound,
    lease_ends_mono_ms,
    lives,
    looking,
    named,
    status_is,
    until,
)
from tests.support.foreign import foreign_rows, foreign_statuses

pytestmark = pytest.mark.slow

TASKS = 400
POISON_AND_NEIGHBOURS = 100


def _done(app: Outlast, count: int) -> None:
    """Waits until so many tasks are done."""
    until(lambda: app.counts()["completed"] >= count, f"there are no {count} tasks done")


def test_the_store_process_of_a_killed_worker_is_gone_and_renews_nothing(database: Path) -> None:
    """Nobody else has to notice: the kernel ends it, whatever it was doing."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    with WorkerChild(database, settings={"heartbeat_interval_seconds": 0.05}) as worker:
        worker.begun("t")
        store_process = worker.store_process()
        at_first_ms = lease_ends_mono_ms(database, "t")
        until(lambda: lease_ends_mono_ms(database, "t") > at_first_ms, "nobody renews")
        worker.kill()
        killed_at = time.monotonic()
        until(lambda: not lives(store_process), "the store process outlives its worker")
        assert time.monotonic() - killed_at < 1
    at_last_ms = lease_ends_mono_ms(database, "t")
    assert at_last_ms <= killed_at * 1000 + 300_000, "no lease was renewed after the kill"
    with Outlast(database) as app:
        assert app.counts()["running"] == 0, "back without waiting for the lease"
        assert (app.get("t").status, app.get("t").recovery_count) == ("pending", 1)


@contextmanager
def _a_killed_worker_whose_child_lives_on(database: Path) -> Iterator[None]:
    with WorkerChild(database) as worker:
        child = int(worker.begun("t"))
        try:
            worker.kill()
            assert lives(child)
            yield
            assert lives(child), "or it would prove nothing"
        finally:
            os.kill(child, signal.SIGKILL)


def test_what_a_handler_started_does_not_keep_its_dead_worker_alive(database: Path) -> None:
    """The worker's lock goes with the worker: no program that a handler starts inherits it."""
    with Outlast(database) as app:
        app.enqueue("leaves_a_process", id="t")
        with _a_killed_worker_whose_child_lives_on(database):
            assert named(app, "w").state == "dead"
            (lease,) = app.claim("next")
            assert (lease.task_id, lease.attempt) == ("t", 2)


@pytest.mark.proves("RTY-02", "RTY-04")
def test_a_handler_that_kills_its_worker_pays_alone_and_the_rest_is_done_in_the_end(
    database: Path,
) -> None:
    """A supervisor starts the worker again each time; 99 tasks wait behind the poison each time.

    One crash is forgiven here instead of three: the worker is killed twice.
    """
    ids = ["poison", *(f"t-{n}" for n in range(1, POISON_AND_NEIGHBOURS))]
    with Outlast(database) as app:
        app.enqueue("poison", id="poison", max_recoveries=1)
        app.enqueue_many("quick", [{}] * (POISON_AND_NEIGHBOURS - 1), id=ids[1:])
    lives_lost = 0
    while lives_lost < 10:
        with WorkerChild(database, concurrency=1, eager=True, until_empty=True) as worker:
            if worker.wait() == 0:
                break
            lives_lost += 1
            assert _held_by_the_dead(database) == POISON_AND_NEIGHBOURS
    assert lives_lost == 2
    with Outlast(database) as app:
        poison = app.get("poison")
        assert (poison.status, poison.attempt, poison.recovery_count) == ("failed", 2, 1)
        assert app.history("poison")[-1].reason == "max_retries_exceeded"
        others = [app.get(task_id) for task_id in ids[1:]]
        assert {(one.status, one.attempt, one.recovery_count) for one in others} == {
            ("completed", 1, 0)
        }
        refunds = [move for move in app.history("t-1") if move.reason == "never_started"]
        assert len(refunds) == 2


def _held_by_the_dead(database: Path) -> int:
    ((count,),) = foreign_rows(database, "SELECT count(*) FROM tasks WHERE status = 'running'")
    return int(count)


def test_a_process_killed_for_its_memory_hurts_only_its_own_task(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("held", id="neighbour")
        app.enqueue("kills_its_process", {}, id="hog", max_retries=0)
    with WorkerChild(database) as worker, looking(database) as app:
        worker.begun("neighbour")
        status_is(app, "hog", "failed")
        assert app.get("neighbour").status == "running"
        app.enqueue("quick", {}, id="afterwards")
        status_is(app, "afterwards", "completed")
        worker.let_go("neighbour")
        status_is(app, "neighbour", "completed")
        assert (app.get("neighbour").attempt, app.get("hog").attempt) == (1, 1)
        worker.signal(signal.SIGTERM)
        worker.ended()
    killed = foreign_rows(
        database,
        """SELECT x.exit_signal, x.actor FROM transitions x JOIN tasks t ON t.seq = x.task_seq
           WHERE t.id = 'hog' AND x.to_status = 'failed'""",
    )
    assert killed == [[signal.SIGKILL, "worker"]]


@pytest.mark.proves("REC-32")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_told_to_stop_under_load_leaves_no_orphans(database: Path, number: int) -> None:
    """What ran to its end in time counts; what did not is put back uncharged, as what waited."""
    with Outlast(database) as app:
        app.enqueue("stubborn", id="slow", priority=2)
        app.enqueue("held", id="done", priority=1)
        app.enqueue_many("quick", [{"seconds": 0.005}] * TASKS)
    with (
        WorkerChild(database, shutdown=2, eager=True, concurrency=4) as worker,
        looking(database) as app,
    ):
        worker.begun("slow")
        worker.begun("done")
        _done(app, 20)
        worker.signal(number)
        worker.let_go("done")
        tally = worker.ended()
    assert 20 <= tally["completed"] < TASKS
    assert tally["released"] > 1, "more than the slow one was in hand"
    rows = foreign_rows(database, "SELECT DISTINCT status, attempt, recovery_count FROM tasks")
    assert sorted(rows) == [["completed", 1, 0], ["pending", 0, 0]]
    statuses = foreign_statuses(database)
    assert (statuses["done"], statuses["slow"]) == ("completed", "pending")
    assert foreign_rows(database, "SELECT state FROM workers") == [["left"]]
    side = database.with_name(f"{database.name}-outlast")
    assert list((side / "workers").iterdir()) == [], "its sign of life is gone"
    log = database.with_name(f"{database.name}-wal")
    assert not log.exists() or log.stat().st_size == 0, "the log is flushed"
    with WorkerChild(database, "next", until_empty=True) as worker:
        worker.let_go("slow")
        worker.ended()
    assert_history_is_sound(database, {})
