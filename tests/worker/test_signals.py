"""SIGTERM and SIGINT to a program that runs a worker, and what the next start finds."""

import os
import signal
import time
from pathlib import Path

import pytest

from outlast import Outlast
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows
from tests.worker.shift import eventually

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def _works_under_load(path: str, shutdown_seconds: float) -> None:
    import time

    from outlast import Outlast
    from outlast.tasks.context import Context
    from tests.support.childside import say

    app = Outlast(path)
    done: list[int] = []

    @app.task
    def quick(n: int) -> int:
        done.append(n)
        if len(done) == 300:
            say("in full swing")
        return n

    @app.task
    def slow(n: int) -> int:
        time.sleep(0.3)
        return n

    @app.task
    def until_stopped(ctx: Context) -> str:
        say("begun")
        ctx.wait(60)
        say("told to stop")
        time.sleep(0.1)
        return "finished"

    @app.task
    def deaf() -> None:
        say("begun")
        time.sleep(60)

    tally = app.worker(concurrency=4, shutdown=shutdown_seconds).run()
    say([tally.completed, tally.lost])
    app.close()


def orphans_and_charges(database: Path) -> list[list[object]]:
    """Seen before anybody opens the store again: who is held, and who was charged for nothing."""
    return foreign_rows(
        database,
        "SELECT id, status, attempt, recovery_count FROM tasks"
        " WHERE status = 'running' OR (status = 'pending' AND attempt > 0) OR recovery_count > 0",
    )


def assert_nothing_is_left_of_it(database: Path) -> None:
    side = database.with_name(f"{database.name}-outlast")
    assert list((side / "workers").iterdir()) == []
    assert [one for one in side.rglob("*") if one.is_socket()] == []
    wal = database.with_name(f"{database.name}-wal")
    assert not wal.exists() or wal.stat().st_size == 0, "the log was flushed"
    names = {one.name for one in database.parent.iterdir()}
    assert names <= {f"{database.name}{end}" for end in ("", "-wal", "-shm", "-outlast")}
    assert foreign_rows(database, "SELECT name FROM workers WHERE state = 'alive'") == []


@pytest.mark.proves("REC-32")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_a_worker_told_to_end_under_load_leaves_no_orphan(
    database: Path, number: signal.Signals
) -> None:
    with Outlast(database) as app:
        app.enqueue("until_stopped", {}, id="long", priority=1)
        app.enqueue_many("quick", [{"n": n} for n in range(20_000)])
        app.enqueue_many("slow", [{"n": n} for n in range(50)], priority=-1)
    with Child(_works_under_load, database, 30) as child:
        assert child.hear() == "begun"
        assert child.hear() == "in full swing"
        child.signal(number)
        assert child.hear() == "told to stop"
        completed, lost = child.hear()
        assert child.wait() == 0, child.error()
    assert lost == 0
    assert orphans_and_charges(database) == []
    assert_nothing_is_left_of_it(database)
    counts = dict(map(tuple, foreign_rows(database, _COUNTS)))
    assert counts["completed"] == completed > 300
    assert counts["pending"] == 20_051 - completed > 0
    with Outlast(database) as app:
        assert app.get("long").result == "finished", "a running handler could finish"
        assert app.heal().entries_reclaimed == 0
    assert_sound(database)


_COUNTS = "SELECT status, count(*) FROM tasks GROUP BY status"


@pytest.mark.proves("REC-32")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_handlers_that_do_not_end_within_the_limit_are_released_uncharged(
    database: Path, number: signal.Signals
) -> None:
    with Outlast(database) as app:
        app.enqueue("deaf", {}, id="d")
    with Child(_works_under_load, database, 0.2) as child:
        assert child.hear() == "begun"
        child.signal(number)
        assert child.hear() == [0, 0]
        assert child.wait() == 0, child.error()
    assert orphans_and_charges(database) == []
    assert foreign_rows(database, "SELECT status FROM tasks") == [["pending"]]
    assert_nothing_is_left_of_it(database)


@pytest.mark.slow
@pytest.mark.proves("REC-32")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
def test_a_second_signal_ends_it_at_once(database: Path, number: signal.Signals) -> None:
    with Outlast(database) as app:
        app.enqueue("until_stopped", {}, id="hears")
        app.enqueue("deaf", {}, id="deaf")
    with Child(_works_under_load, database, 600) as child:
        assert [child.hear(), child.hear()] == ["begun", "begun"]
        child.signal(number)
        assert child.hear() == "told to stop"
        began_at = time.monotonic()
        child.signal(number)
        child.hear()
        assert child.wait() == 0, child.error()
        assert time.monotonic() - began_at < 20
    assert orphans_and_charges(database) == []
    assert foreign_rows(database, "SELECT status FROM tasks WHERE id = 'deaf'") == [["pending"]]
    assert_nothing_is_left_of_it(database)


def test_the_store_process_is_gone_with_its_worker(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("until_stopped", {})
    with Child(_works_under_load, database, 30) as child:
        assert child.hear() == "begun"
        store_processes = eventually(lambda: _children_of(child.pid))
        child.signal(signal.SIGTERM)
        assert child.wait() == 0, child.error()
    eventually(lambda: not [pid for pid in store_processes if Path(f"/proc/{pid}").exists()])


def test_a_signal_to_the_whole_group_still_ends_in_order(database: Path) -> None:
    """Ctrl-C reaches the store process, too, which must stay until its worker has said all."""
    with Outlast(database) as app:
        app.enqueue("until_stopped", {}, id="long")
    with Child(_works_under_load, database, 30) as child:
        assert child.hear() == "begun"
        for pid in [*eventually(lambda: _children_of(child.pid)), child.pid]:
            os.kill(pid, signal.SIGINT)
        assert child.hear() == "told to stop"
        assert child.hear() == [1, 0]
        assert child.wait() == 0, child.error()
    assert foreign_rows(database, "SELECT status FROM tasks") == [["completed"]]


def _children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(one) for task in tasks for one in task.read_text().split()]
