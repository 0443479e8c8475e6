"""When a run that is to end with the work ends, and what it waits for."""

import time

import pytest

from outlast import Outlast, PermanentError, Status
from outlast.tasks.context import Context
from tests.worker.conftest import MakeApp
from tests.worker.shift import Gate, Shift, eventually


def test_a_run_on_an_empty_store_ends(live: Outlast) -> None:
    @live.task
    def nothing() -> None:
        return None

    assert live.worker().run(until_empty=True).completed == 0


def test_a_run_waits_for_a_retry_in_its_back_off(make_live: MakeApp) -> None:
    app = make_live(retry_backoff_seconds=0.3, retry_backoff_cap_seconds=0.3)

    @app.task
    def at_the_second_try(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    task = at_the_second_try.enqueue()
    tally = app.worker().run(until_empty=True)
    assert (tally.completed, tally.failed) == (1, 1)
    assert app.get(task.id).result == 2


def test_a_run_does_not_wait_for_a_task_that_is_put_off(live: Outlast) -> None:
    @live.task
    def work() -> None:
        return None

    later = work.using(delay="1h").enqueue()
    now = work.enqueue()
    assert live.worker().run(until_empty=True).completed == 1
    assert live.get(now.id).status is Status.COMPLETED
    assert live.get(later.id).status is Status.PENDING


def test_a_run_does_not_wait_for_a_retry_of_another_queue_or_kind(make_live: MakeApp) -> None:
    app = make_live(retry_backoff_seconds=3600, retry_backoff_cap_seconds=3600)

    @app.task
    def work() -> None:
        return None

    app.enqueue("of others")
    work.using(queue="elsewhere").enqueue()
    for lease in app.claim("w", limit=2, queue=["default", "elsewhere"]):
        lease.fail("in back-off for an hour")
    work.enqueue()
    assert app.worker().run(until_empty=True).completed == 1
    assert app.counts()["pending"] == 2


def test_a_run_does_not_wait_for_kinds_it_does_not_serve(live: Outlast) -> None:
    @live.task
    def mine() -> None:
        return None

    live.enqueue("of others")
    mine.enqueue()
    assert live.worker().run(until_empty=True).completed == 1
    assert live.counts()["pending"] == 1


def test_a_run_ends_when_its_queue_is_paused(live: Outlast) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> None:
        gate.enter(n)

    work.enqueue_many(range(3))
    with Shift(live.worker(concurrency=1), until_empty=True) as shift:
        gate.wait_for(1)
        live.pause("default")
        gate.open()
        assert shift.ended().completed == 1
    assert live.counts()["pending"] == 2


@pytest.mark.slow
def test_a_run_ends_although_a_handler_does_not(live: Outlast) -> None:
    gate = Gate()

    @live.task(timeout=0.1, max_retries=0)
    def deaf() -> None:
        gate.enter()

    task = deaf.enqueue()
    began_at = time.monotonic()
    tally = live.worker(concurrency=1).run(until_empty=True)
    assert time.monotonic() - began_at < 20
    gate.open()
    assert tally.failed == 1
    assert live.get(task.id).status is Status.FAILED


def test_a_handler_that_stops_a_little_late_does_not_end_the_run(live: Outlast) -> None:
    """For a moment its slot is busy and nothing is in hand, which is not the same as stuck."""
    gate = Gate()

    @live.task(timeout=0.1, max_retries=0)
    def slow_to_stop(ctx: Context) -> None:
        eventually(lambda: ctx.cancelled)
        eventually(lambda: live.get(ctx.task_id).status is Status.FAILED)
        gate.enter()

    @live.task
    def follows() -> None:
        return None

    slow_to_stop.enqueue()
    next_one = follows.enqueue()
    with Shift(live.worker(concurrency=1), until_empty=True) as shift:
        gate.wait_for(1)
        eventually(lambda: shift.worker.tally.failed == 1)
        gate.open()
        assert shift.ended().completed == 1
    assert live.get(next_one.id).status is Status.COMPLETED


def test_a_run_waits_for_nothing_that_failed_for_good(live: Outlast) -> None:
    @live.task
    def hopeless() -> None:
        raise PermanentError("never")

    hopeless.enqueue()
    assert live.worker().run(until_empty=True).failed == 1
    assert live.counts()["failed"] == 1
