import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast, PermanentError
from outlast.tasks.context import Context
from outlast.testing import Drained, ManualClock, drain


def test_drain_runs_what_may_run_in_the_calling_thread(app: Outlast) -> None:
    ran_in: list[int] = []

    @app.task
    def double(n: int) -> int:
        ran_in.append(threading.get_ident())
        return 2 * n

    tasks = [double.enqueue(n) for n in (1, 2, 3)]
    assert drain(app) == Drained(completed=[task.id for task in tasks])
    assert [app.get(task.id).result for task in tasks] == [2, 4, 6]
    assert ran_in == [threading.get_ident()] * 3
    assert drain(app) == Drained()


def test_drain_serves_every_queue_by_priority_and_what_tasks_enqueue_themselves(
    app: Outlast,
) -> None:
    said: list[str] = []

    @app.task
    def say(word: str, then: str | None = None) -> None:
        said.append(word)
        if then:
            say.using(queue="elsewhere").enqueue(then)

    say.enqueue("low")
    say.using(priority=5).enqueue("high", then="child")
    say.using(queue="gpu").enqueue("gpu")
    assert drain(app).executions == 4
    assert said == ["high", "low", "gpu", "child"]


def test_drain_keeps_to_the_queues_and_kinds_it_may_serve(app: Outlast) -> None:
    @app.task
    def work() -> None: ...

    app.enqueue("nobody knows it", id="unknown")
    work.using(id="here", queue="a").enqueue()
    work.using(id="there", queue="b").enqueue()
    work.using(id="second", queue="c").enqueue()
    assert drain(app, queues="a").completed == ["here"]
    assert drain(app, queues=["c", "b"]).completed == ["second", "there"]
    assert app.get("unknown").status == "pending"
    assert app.get("unknown").attempt == 0


def test_more_kinds_than_fit_one_claim_are_drained(app: Outlast) -> None:
    def work() -> None: ...

    for n in range(450):
        app.task(name=f"kind {n}")(work)
        app.enqueue(f"kind {n}") if n % 50 == 0 else None
    assert len(drain(app).completed) == 9


def test_a_failure_waits_for_its_retry_as_the_function_says(
    app: Outlast, clock: ManualClock
) -> None:
    @app.task(backoff="20s", backoff_cap="1m", max_retries=2)
    def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise OSError("not yet")
        return ctx.attempt

    task = flaky.enqueue()
    assert drain(app) == Drained(retried=[task.id])
    assert "OSError: not yet" in (app.get(task.id).error or "")
    waits = app.get(task.id).not_before
    assert waits is not None
    assert 10 <= waits.timestamp() - clock.now().utc_ms / 1000 <= 20
    clock.advance("9s")
    assert drain(app) == Drained()
    clock.advance("11s")
    assert drain(app) == Drained(retried=[task.id])
    clock.advance("1m")
    assert drain(app) == Drained(completed=[task.id])
    assert app.get(task.id).result == 3


def test_until_due_runs_what_waits_for_a_time_the_earliest_first(app: Outlast) -> None:
    said: list[Any] = []

    @app.task(max_retries=1)
    def say(ctx: Context, word: str, fails: bool = False) -> None:
        said.append(word)
        if fails:
            raise OSError("broken")

    say.using(delay="3h").enqueue("last")
    say.using(delay="1h").enqueue("second")
    failing = say.enqueue("first", fails=True)
    say.using(delay="1m", queue="other").enqueue("elsewhere")
    drained = drain(app, queues="default", until_due=True)
    assert said == ["first", "first", "second", "last"]
    assert (drained.retried, drained.failed) == ([failing.id], [failing.id])
    assert len(drained.completed) == 2
    assert app.counts("other")["pending"] == 1


def test_a_permanent_error_and_a_payload_that_does_not_fit_are_not_retried(
    make_app: Callable[..., Outlast],
) -> None:
    app, unknowing = make_app(), make_app()

    @app.task
    def check(n: int) -> None:
        raise PermanentError("never")

    check.using(id="permanent").enqueue(1)
    unknowing.enqueue("check", {"n": "x"}, id="unfit")
    drained = drain(app)
    assert drained.failed == ["permanent", "unfit"]
    assert drained.retried == []
    assert "argument n of check() must be int" in (app.get("unfit").error or "")
    assert app.get("unfit").attempt == 1


def test_a_task_that_was_cancelled_while_it_ran_is_lost(app: Outlast) -> None:
    @app.task
    def cancel_me(ctx: Context) -> None:
        app.cancel(ctx.task_id)

    task = cancel_me.enqueue()
    assert drain(app) == Drained(lost=[task.id])
    assert app.get(task.id).status == "cancelled"


def test_tasks_of_a_holder_whose_lease_ran_out_are_drained(
    app: Outlast, clock: ManualClock
) -> None:
    @app.task
    def work() -> None: ...

    task = work.enqueue()
    app.claim("somebody slow", lease="1m")
    assert drain(app) == Drained()
    clock.advance("2m")
    assert drain(app) == Drained(completed=[task.id])


def test_async_functions_are_drained_with_and_without_a_loop_around(app: Outlast) -> None:
    @app.task
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    first = double.enqueue(1)
    assert drain(app).completed == [first.id]

    async def scene() -> str:
        second = await double.aenqueue(2)
        assert drain(app).completed == [second.id]
        return second.id

    assert app.get(asyncio.run(scene())).result == 4


def test_functions_of_an_async_outlast_are_drained(database: Any, clock: ManualClock) -> None:
    aio = AsyncOutlast(database, clock=clock)

    @aio.task
    async def double(n: int) -> int:
        return 2 * n

    async def scene() -> None:
        async with aio:
            task = await double.enqueue(4)
            drained = await asyncio.to_thread(drain, aio)
            assert drained.completed == [task.id]
            assert await task.wait(timeout=5) == 8

    asyncio.run(scene())


def test_a_task_that_enqueues_itself_for_ever_is_stopped(app: Outlast) -> None:
    @app.task
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(AssertionError, match="7 tasks were run and there are more") as stopped:
        drain(app, limit=7)
    assert "(again)" in str(stopped.value)
    assert (app.counts()["completed"], app.counts()["pending"]) == (7, 1)


def test_a_loop_that_is_stopped_gives_its_task_back(app: Outlast) -> None:
    async def leaves() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(10)

    app.task(leaves)
    task = app.enqueue("leaves")
    with pytest.raises(RuntimeError, match="Event loop stopped"):
        drain(app)
    again = app.get(task.id)
    assert (again.status, again.attempt, again.retry_count) == ("pending", 0, 0)


def test_wrong_queues_are_refused(app: Outlast) -> None:
    app.task(name="work")(_nothing)
    with pytest.raises(InvalidInput, match="queue must be"):
        drain(app, queues=[""])


def _nothing() -> None: ...
