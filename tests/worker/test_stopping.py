"""Ways to end a run from within the process."""

import asyncio
import threading
import time
from typing import Any

import pytest

from outlast import Outlast, Status
from outlast.tasks.context import Context
from tests.worker.conftest import MakeApp
from tests.worker.shift import Gate, Shift, eventually


def test_stop_lets_running_handlers_finish_and_puts_the_others_back_uncharged(
    live: Outlast,
) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> int:
        gate.enter(n)
        return n

    ids = work.enqueue_many(range(10))
    with Shift(live.worker(concurrency=2)) as shift:
        gate.wait_for(2)
        shift.worker.stop()
        assert not shift.is_over
        gate.open()
        assert shift.ended().completed == 2
    tasks = [live.get(one) for one in ids]
    assert [task.status for task in tasks] == [Status.COMPLETED] * 2 + [Status.PENDING] * 8
    assert {task.attempt for task in tasks[2:]} == {0}


def test_a_handler_may_take_the_whole_limit_to_finish(live: Outlast) -> None:
    """The limit is the one that was asked for, and not some shorter one."""
    gate = Gate()

    @live.task
    def work() -> int:
        gate.enter()
        return 1

    task = work.enqueue()
    with Shift(live.worker(shutdown="60s")) as shift:
        gate.wait_for(1)
        shift.worker.stop()
        dispatcher = shift.worker._dispatcher
        assert dispatcher is not None
        eventually(lambda: dispatcher._stops_at)
        assert dispatcher._releases_at - time.monotonic() > 40
        gate.open()
        assert shift.ended().completed == 1
    assert live.get(task.id).result == 1


def test_what_was_taken_ahead_is_put_back_uncharged(live: Outlast) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> None:
        if n == 1000:
            gate.enter(n)

    ids = work.enqueue_many(range(2000))
    with Shift(live.worker(concurrency=1)) as shift:
        gate.wait_for(1)
        assert live.counts()["running"] > 1
        shift.worker.stop()
        eventually(lambda: live.counts()["running"] == 1)
        gate.open()
        tally = shift.ended()
    assert tally.completed == 1001
    assert tally.released > 0
    assert live.counts() | {"completed": 1001, "pending": 999} == live.counts()
    assert {live.get(one).attempt for one in ids[1001:1300]} == {0}


def test_after_the_limit_the_rest_is_put_back_uncharged_and_its_late_result_dropped(
    live: Outlast,
) -> None:
    gate = Gate()
    ended = threading.Event()

    @live.task
    def deaf(ctx: Context) -> str:
        gate.enter()
        ended.set()
        return "late"

    task = deaf.enqueue()
    with Shift(live.worker(shutdown="0.2s")) as shift:
        gate.wait_for(1)
        shift.worker.stop()
        tally = shift.ended()
    assert (tally.completed, tally.released) == (0, 1)
    gate.open()
    assert ended.wait(30)
    found = live.get(task.id)
    assert (found.status, found.attempt, found.result) == (Status.PENDING, 0, None)
    (back,) = [move for move in live.history(task.id) if move.to_status is Status.PENDING]
    assert back.reason == "released"


def test_a_late_handler_disturbs_nothing_when_its_worker_is_gone(live: Outlast) -> None:
    """Its way to wake the worker was a descriptor, whose number may be another file's by now."""
    import os

    gate = Gate()
    ended = threading.Event()

    @live.task
    def deaf() -> None:
        gate.enter()
        ended.set()

    deaf.enqueue()
    with Shift(live.worker()) as shift:
        gate.wait_for(1)
        shift.worker.stop(at_once=True)
        shift.ended()
    pipes = [os.pipe() for _ in range(20)]
    try:
        gate.open()
        assert ended.wait(30)
        eventually(lambda: not [one for one in threading.enumerate() if one.name == "outlast-1"])
        for reads, _ in pipes:
            os.set_blocking(reads, False)
            with pytest.raises(BlockingIOError):
                os.read(reads, 1)
    finally:
        for pair in pipes:
            os.close(pair[0])
            os.close(pair[1])


def test_stop_at_once_waits_for_nobody(live: Outlast) -> None:
    gate = Gate()
    cancelled: list[Any] = []

    @live.task
    def work(ctx: Context) -> None:
        gate.enter()

    @live.task
    async def sleeps() -> None:
        gate.passed.append(1)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    tasks = [work.enqueue(), sleeps.enqueue()]
    with Shift(live.worker(shutdown="1h")) as shift:
        gate.wait_for(2)
        shift.worker.stop()
        shift.worker.stop(at_once=True)
        assert shift.ended(20).released == 2
    gate.open()
    eventually(lambda: cancelled)
    for task in tasks:
        assert (live.get(task.id).status, live.get(task.id).attempt) == (Status.PENDING, 0)


def test_a_handler_may_stop_its_own_worker(live: Outlast) -> None:
    worker = live.worker(concurrency=1)

    @live.task
    def last(n: int) -> None:
        worker.stop()

    last.enqueue_many(range(3))
    assert worker.run().completed == 1
    assert live.counts()["pending"] == 2


def test_a_stop_that_comes_before_the_run_ends_it(live: Outlast) -> None:
    """A thread that is to run the worker may begin after somebody wants it to end."""

    @live.task
    def work() -> None:
        return None

    work.enqueue()
    worker = live.worker()
    worker.stop()
    assert worker.run().completed == 0
    assert worker.run(until_empty=True).completed == 1, "it counted once"


def test_a_task_claimed_at_the_last_moment_is_put_back(make_app: MakeApp) -> None:
    """Nobody would be at work on it, while its worker's process lives on and its lease lasts."""
    app = make_app()

    @app.task
    def work() -> None:
        return None

    worker = app.worker(concurrency=1)
    for n in range(40):
        with Shift(worker) as shift:
            eventually(lambda: (dispatcher := worker._dispatcher) and dispatcher.is_ready)
            enqueuing = threading.Thread(target=work.enqueue)
            enqueuing.start()
            if n % 2:
                enqueuing.join()
            worker.stop()
            shift.ended()
            enqueuing.join()
        assert app.counts()["running"] == 0


@pytest.mark.parametrize("store_process", ["process", "thread"])
def test_closing_the_app_ends_its_worker_and_gives_back_what_it_held(
    make_live: MakeApp, make_app: MakeApp, store_process: str
) -> None:
    app = make_live() if store_process == "process" else make_app()
    gate = Gate()

    @app.task
    def work() -> None:
        gate.enter()

    task = work.enqueue()
    with Shift(app.worker()) as shift:
        gate.wait_for(1)
        app.close()
        shift.ended(20)
    gate.open()
    found = app.get(task.id)
    if found.status is Status.RUNNING:
        app.open()
        found = app.get(task.id)
    assert (found.status, found.attempt, found.recovery_count) == (Status.PENDING, 0, 0)


def test_closing_the_app_ends_an_idle_worker(live: Outlast) -> None:
    @live.task
    def work() -> None:
        return None

    with Shift(live.worker()) as shift:
        work.enqueue().wait(30)
        live.close()
        shift.ended(20)
