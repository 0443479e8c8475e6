"""A worker whose store process is killed or stopped gets another, or knows what it lost."""

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
    stopped_between_writes,
    until,
)

SHORT = {"lease_seconds": 1}
# Long enough for a busy machine to return a result before its lease ends.
LATE = {"lease_seconds": 4}


def _next_store_process(worker: WorkerChild, before: int) -> int:
    until(lambda: not lives(before), "it was killed")
    return worker.store_process()


def _ended_politely(worker: WorkerChild) -> dict[str, int]:
    worker.signal(signal.SIGTERM)
    tally: dict[str, int] = worker.ended()
    return tally


def test_a_worker_whose_store_process_is_killed_goes_on_with_another(database: Path) -> None:
    """The handler at work does not notice, and its task stays its own."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    settings = {"heartbeat_interval_seconds": 0.1}
    with WorkerChild(database, settings=settings) as worker, looking(database) as app:
        worker.begun("t")
        first = worker.store_process()
        os.kill(first, signal.SIGKILL)
        assert _next_store_process(worker, first) != first
        killed_at_ms = time.monotonic() * 1000
        renewed_past_ms = killed_at_ms + 300_000
        until(
            lambda: lease_ends_mono_ms(database, "t") > renewed_past_ms,
            "the next store process does not renew what the worker holds",
        )
        app.enqueue("quick", {}, id="next")
        status_is(app, "next", "completed")
        worker.let_go("t")
        status_is(app, "t", "completed")
        assert not worker.has_left("begun", "t", 2)
        assert not worker.has_left("cancelled", "t")
        assert _ended_politely(worker)["completed"] == 2
    assert_history_is_sound(database, {})


def test_results_that_a_killed_store_process_never_stored_are_offered_again_and_count_once(
    database: Path,
) -> None:
    with Outlast(database) as app:
        app.enqueue_many("held", [{}] * 3, id=["t-0", "t-1", "t-2"])
    with WorkerChild(database) as worker, looking(database) as app:
        for n in range(3):
            worker.begun(f"t-{n}")
        store_process = worker.store_process()
        with stopped_between_writes(store_process, database):
            for n in range(3):
                worker.let_go(f"t-{n}")
            for n in range(3):
                worker.sign("returned", f"t-{n}")
            os.kill(store_process, signal.SIGKILL)
            until(lambda: not lives(store_process), "it was killed")
        for n in range(3):
            status_is(app, f"t-{n}", "completed")
        assert {app.get(f"t-{n}").attempt for n in range(3)} == {1}
        assert _ended_politely(worker) == {"completed": 3, "failed": 0, "released": 0, "lost": 0}
    assert_history_is_sound(database, {})


def test_what_a_killed_store_process_claimed_and_told_nobody_of_is_put_back_by_the_next(
    database: Path,
) -> None:
    """Claimed for the worker and unknown to it, it would else stay away for a whole lease."""
    with Outlast(database) as app:
        app.enqueue_many("quick", [{}] * 3, id=["t-0", "t-1", "t-2"])
        app.enqueue("held", id="held")
    with WorkerChild(database, strays=3) as worker, looking(database) as app:
        worker.begun("held")
        assert app.counts()["running"] == 4
        os.kill(worker.store_process(), signal.SIGKILL)
        for n in range(3):
            status_is(app, f"t-{n}", "completed")
        tasks = [app.get(f"t-{n}") for n in range(3)]
        assert {(one.attempt, one.recovery_count) for one in tasks} == {(1, 0)}
        assert app.get("held").status == "running"
        assert not worker.has_left("cancelled", "held")


@contextmanager
def _cut_off(worker: WorkerChild, database: Path, task_id: str) -> Iterator[None]:
    """The store process stands still until the worker knows that its lease has run out."""
    with stopped_between_writes(worker.store_process(), database):
        worker.sign("cancelled", task_id)
        yield


@pytest.mark.proves("HB-20")
def test_a_worker_that_cannot_renew_calls_its_handlers_off_and_begins_nothing_more(
    database: Path,
) -> None:
    """Nobody told it: it goes by its own clock, before anybody else may take its tasks."""
    with Outlast(database) as app:
        app.enqueue_many("held", [{}] * 2, id=["t", "waiting"])
        with WorkerChild(database, settings=SHORT, concurrency=1, eager=True) as worker:
            worker.begun("t")
            until(lambda: app.counts()["running"] == 2, "it takes no task ahead")
            with _cut_off(worker, database, "t"):
                assert "ran out" in worker.sign("cancelled", "t")
                taken = until(lambda: app.claim("other", limit=2, lease=30), "never run out")
                taken += app.claim("other", limit=2, lease=30)
                assert [lease.task_id for lease in taken] == ["t", "waiting"]
                assert not worker.has_left("begun", "waiting")
            for lease in taken:
                assert lease.complete("the other's result")
            app.enqueue("quick", {}, id="later")
            status_is(app, "later", "completed")
            _ended_politely(worker)
        assert {app.get(one).result for one in ("t", "waiting")} == {"the other's result"}
        assert not worker.has_left("begun", "waiting")
        assert not worker.has_left("begun", "waiting", 2)


@pytest.mark.proves("HB-20")
def test_a_task_given_up_is_not_renewed_by_the_store_process_that_comes_back(
    database: Path,
) -> None:
    """Kept by a store process whose worker called it off, it would be nobody's and never done."""
    with Outlast(database) as app:
        app.enqueue("stubborn", id="t")
        with WorkerChild(database, settings=SHORT, concurrency=1) as worker:
            worker.begun("t")
            with stopped_between_writes(worker.store_process(), database):
                until(lambda: _knows_of_its_loss(worker), "it does not go by its own clock")
                before = named(app, "w").beat_at
            until(lambda: named(app, "w").beat_at > before, "it does not beat again")
            (lease,) = until(lambda: app.claim("other", lease=30), "it is renewed for ever")
            assert (lease.task_id, lease.attempt) == ("t", 2)
            worker.let_go("t")
            worker.sign("finished", "t")
            tally = _ended_politely(worker)
            assert (tally["completed"], tally["lost"]) == (0, 1)
            assert lease.complete("the other's result")


def _knows_of_its_loss(worker: WorkerChild) -> bool:
    return any("ran out before it could be renewed" in text for _, text in worker.troubles())


@pytest.mark.proves("HB-20")
def test_a_result_that_is_offered_late_counts_while_nobody_else_has_the_task(
    database: Path,
) -> None:
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    with WorkerChild(database, settings=LATE) as worker, looking(database) as app:
        worker.begun("t")
        with stopped_between_writes(worker.store_process(), database):
            worker.let_go("t")
            worker.sign("returned", "t")
            ends_ms = lease_ends_mono_ms(database, "t")
            until(lambda: time.monotonic() * 1000 > ends_ms, "time stands still")
        status_is(app, "t", "completed")
        assert [move.reason for move in app.history("t")] == ["claimed", "completed"]
        assert _ended_politely(worker)["completed"] == 1


@pytest.mark.proves("HB-20", "CLM-04")
def test_a_result_that_is_offered_when_another_has_the_task_is_refused(database: Path) -> None:
    """It was finished in time, and the store process could not store it before the lease ended."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
        with WorkerChild(database, settings=LATE) as worker:
            worker.begun("t")
            with stopped_between_writes(worker.store_process(), database):
                worker.let_go("t")
                worker.sign("returned", "t")
                (lease,) = until(lambda: app.claim("other", lease=30), "it never runs out")
                assert (lease.task_id, lease.attempt) == ("t", 2)
            app.enqueue("quick", {}, id="next")
            status_is(app, "next", "completed")
            tally = _ended_politely(worker)
            assert (tally["completed"], tally["lost"]) == (1, 1)
            assert app.get("t").status == "running"
            assert lease.complete("the other's result")
        assert app.get("t").result == "the other's result"


@pytest.mark.slow
@pytest.mark.proves("HB-15")
def test_a_handler_that_holds_the_interpreter_is_not_taken_for_dead(
    database: Path, tmp_path: Path
) -> None:
    """For several beats and a whole lease no thread of the worker can move."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Outlast(database) as app:
        app.enqueue("grips", {"fifo": str(fifo)}, id="t")
        app.enqueue("quick", {}, id="neighbour")
        settings = {"lease_seconds": 2, "heartbeat_interval_seconds": 0.2}
        with WorkerChild(
            database, settings=settings, concurrency=2, dispatcher_pause_seconds=0.1
        ) as worker:
            worker.sign("gripping", "t")
            lease_ends_ms = lease_ends_mono_ms(database, "t")
            _await_beats(app, 3)
            until(lambda: time.monotonic() * 1000 > lease_ends_ms, "time stands still")
            assert app.heal().entries_reclaimed == 0
            assert app.claim("other", kinds=["grips"]) == []
            assert named(app, "w").state == "alive"
            assert not worker.has_left("begun", "t")
            fifo.write_bytes(b"!")
            worker.begun("t")
            _await_beats(app, 2)
            worker.let_go("t")
            for task_id in ("t", "neighbour"):
                status_is(app, task_id, "completed")
                task = app.get(task_id)
                assert (task.attempt, task.recovery_count) == (1, 0)
            _ended_politely(worker)


def _await_beats(app: Outlast, count: int) -> None:
    for _ in range(count):
        before = named(app, "w").beat_at
        until(lambda before=before: named(app, "w").beat_at > before, "it does not beat")  # type: ignore[misc]
