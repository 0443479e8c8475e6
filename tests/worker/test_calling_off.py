"""Timeouts and cancellations: the task is settled at once, the handler ends when it can."""

import asyncio
import threading
from typing import Any

import pytest

from outlast import Outlast, Status, TaskCancelled, TaskFailed
from outlast.tasks.context import Context
from tests.worker.conftest import MakeApp
from tests.worker.shift import Gate, Shift, eventually


def test_a_timeout_settles_the_task_and_tells_the_handler(live: Outlast) -> None:
    heard: list[Any] = []

    @live.task(timeout=0.2, max_retries=0)
    def patient(ctx: Context) -> str:
        heard.append(ctx.wait(30))
        heard.extend((ctx.cancelled, ctx.reason))
        return "too late"

    with Shift(live.worker()) as shift:
        task = patient.enqueue()
        with pytest.raises(TaskFailed, match="it was not done within"):
            task.wait(30)
        eventually(lambda: len(heard) == 3)
        eventually(lambda: shift.worker.running == 0)
        shift.worker.stop()
        assert shift.ended().failed == 1
    assert heard == [True, True, "its time is up"]
    found = live.get(task.id)
    assert (found.status, found.result) == (Status.FAILED, None), "its late result is dropped"
    assert (found.error or "").startswith("TimeoutError: ")


@pytest.mark.slow
def test_a_timed_out_task_is_tried_again_like_any_other_failure(live: Outlast) -> None:
    @live.task(timeout=0.2, max_retries=1, backoff=0.01)
    def at_the_second_try(ctx: Context) -> int:
        if ctx.attempt == 1:
            ctx.wait(30)
        return ctx.attempt

    task = at_the_second_try.enqueue()
    live.worker().run(until_empty=True)
    assert live.get(task.id).result == 2


@pytest.mark.slow
def test_an_async_handler_is_cancelled_when_its_time_is_up(live: Outlast) -> None:
    cancelled = []

    @live.task(timeout=0.2, max_retries=0)
    async def sleeps() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    @live.task
    async def next_one() -> int:
        await asyncio.sleep(0.01)
        return 1

    task, following = sleeps.enqueue(), next_one.enqueue()
    tally = live.worker(concurrency=1).run(until_empty=True)
    assert (tally.completed, tally.failed) == (1, 1)
    assert cancelled == [True]
    assert "it was not done within" in (live.get(task.id).error or "")
    assert live.get(following.id).result == 1


@pytest.mark.slow
def test_a_cancelled_task_calls_its_handler_off(live: Outlast) -> None:
    heard: list[Any] = []

    @live.task
    def patient(ctx: Context) -> None:
        heard.append("begun")
        heard.append(ctx.wait(30))
        ctx.raise_if_cancelled()

    @live.task
    async def sleeps() -> None:
        heard.append("begun")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append(True)
            raise

    for function in (patient, sleeps):
        with Shift(live.worker()) as shift:
            task = function.enqueue()
            eventually(lambda: heard == ["begun"])
            assert live.cancel(task.id)
            with pytest.raises(TaskCancelled):
                task.wait(30)
            eventually(lambda: heard == ["begun", True])
            eventually(lambda: shift.worker.running == 0)
            shift.worker.stop()
            tally = shift.ended()
            assert (tally.lost, tally.failed, tally.completed) == (1, 0, 0)
        assert live.get(task.id).status is Status.CANCELLED
        heard.clear()


@pytest.mark.parametrize("store_process", ["process", "thread"])
def test_a_cancellation_is_noticed_whichever_way_the_store_process_lives(
    make_live: MakeApp, make_app: MakeApp, store_process: str
) -> None:
    app = make_live() if store_process == "process" else make_app()
    begun = threading.Event()

    @app.task
    def patient(ctx: Context) -> None:
        begun.set()
        ctx.wait(60)

    with Shift(app.worker()) as shift:
        task = patient.enqueue()
        assert begun.wait(30)
        app.cancel(task.id)
        eventually(lambda: shift.worker.tally.lost == 1)
        eventually(lambda: shift.worker.running == 0)


def test_no_exception_is_put_into_a_thread(live: Outlast) -> None:
    """A plain handler that pays no attention runs to its own end, whatever became of its task."""
    gate = Gate()
    ended: list[str] = []

    @live.task(timeout=0.1, max_retries=0)
    def deaf() -> str:
        gate.enter()
        ended.append("by itself")
        return "late"

    with Shift(live.worker(concurrency=2)) as shift:
        task = deaf.enqueue()
        eventually(lambda: live.get(task.id).status is Status.FAILED)
        gate.open()
        eventually(lambda: ended == ["by itself"])
        eventually(lambda: shift.worker.running == 0)
    assert live.get(task.id).result is None
    assert shift.tally is not None
    assert (shift.tally.completed, shift.tally.failed) == (0, 1)


@pytest.mark.slow
def test_a_deaf_handler_keeps_its_slot_and_is_named(live: Outlast) -> None:
    gate = Gate()
    others: list[int] = []

    @live.task(timeout=0.1, max_retries=0)
    def deaf() -> None:
        gate.enter()

    @live.task
    def other(n: int) -> None:
        others.append(n)

    task = deaf.enqueue()
    with Shift(live.worker(name="w", concurrency=1)) as shift:
        eventually(lambda: live.get(task.id).status is Status.FAILED)
        (stuck,) = eventually(lambda: live.workers()[0].stuck)
        assert (stuck.task_id, stuck.kind) == (task.id, "deaf")
        assert stuck.since >= live.get(task.id).created_at
        waiting = other.enqueue(1)
        assert shift.worker.running == 1
        assert others == [], "its slot is still taken"
        gate.open()
        waiting.wait(30)
        eventually(lambda: live.workers()[0].stuck == ())


def test_a_worker_does_not_run_a_task_beside_its_own_deaf_handler(live: Outlast) -> None:
    gate = Gate()

    @live.task(timeout=0.1, max_retries=1, backoff=0.01)
    def deaf(ctx: Context) -> int:
        if ctx.attempt == 1:
            gate.enter()
        return ctx.attempt

    @live.task
    def other() -> None:
        return None

    with Shift(live.worker(concurrency=2)):
        task = deaf.enqueue()
        eventually(lambda: live.get(task.id).retry_count == 1)
        eventually(lambda: live.workers()[0].stuck)
        other.enqueue().wait(30)
        found = live.get(task.id)
        assert (found.status, found.attempt) == (Status.PENDING, 1)
        assert "still runs an attempt of it" in live.why(task.id)
        gate.open()
        assert task.wait(30) == 2


def test_another_worker_may_run_it_meanwhile_and_the_late_result_is_dropped(
    live: Outlast, make_live: MakeApp
) -> None:
    gate = Gate()
    other = make_live()

    @live.task(timeout=0.1, max_retries=1, backoff=0.01, name="work")
    def deaf() -> str:
        gate.enter()
        return "late"

    @other.task(name="work")
    def quick() -> str:
        return "in time"

    task = deaf.enqueue()
    with Shift(live.worker(name="a", concurrency=1)) as shift:
        eventually(lambda: live.get(task.id).retry_count == 1)
        with Shift(other.worker(name="b")):
            assert task.wait(30) == "in time"
        gate.open()
        eventually(lambda: shift.worker.running == 0)
    assert live.get(task.id).result == "in time"
    assert live.get(task.id).attempt == 2
