import asyncio
import threading
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, TaskFailed
from outlast.testing import ManualClock, drain, eager


def test_an_eager_enqueue_is_stored_and_run_before_it_returns(app: Outlast) -> None:
    ran_in: list[int] = []

    @app.task
    def double(n: int) -> int:
        ran_in.append(threading.get_ident())
        return 2 * n

    with eager(app):
        task = double.enqueue(4)
        assert (task.status, task.result, task.attempt) == ("completed", 8, 1)
        assert task.wait() == 8
        by_name = app.enqueue("double", {"n": 5})
        assert by_name.result == 10
        many = double.enqueue_many([6, 7])
        assert [app.get(one).result for one in many] == [12, 14]
    assert ran_in == [threading.get_ident()] * 4
    assert double.enqueue(8).status == "pending"
    assert app.counts()["completed"] == 4


def test_an_eager_failure_is_recorded_once_all_retries_are_spent(app: Outlast) -> None:
    attempts: list[int] = []

    @app.task(max_retries=2, backoff="1h")
    def broken() -> None:
        attempts.append(1)
        raise OSError("still broken")

    with eager(app):
        task = broken.enqueue()
    assert (task.status, task.attempt, len(attempts)) == ("failed", 3, 3)
    with pytest.raises(TaskFailed, match="still broken"):
        task.wait()


def test_an_eager_task_may_wait_for_a_task_of_its_own(app: Outlast) -> None:
    @app.task
    def factorial(n: int) -> int:
        if n == 0:
            return 1
        before: int = factorial.enqueue(n - 1).wait(timeout=5)
        return n * before

    with eager(app):
        assert factorial.enqueue(5).result == 120
    assert app.counts()["completed"] == 6


def test_delayed_tasks_and_unknown_kinds_wait_as_ever(app: Outlast, clock: ManualClock) -> None:
    @app.task
    def work() -> None: ...

    with eager(app):
        later = work.using(delay="1h").enqueue()
        unknown = app.enqueue("unknown")
    assert (later.status, unknown.status) == ("pending", "pending")
    clock.advance("1h")
    assert drain(app).completed == [later.id]


def test_eager_ends_with_its_block_even_by_an_error(app: Outlast) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(OSError, match="mine"), eager(app):
        raise OSError("mine")
    with eager(app):
        with eager(app):
            pass
        assert work.enqueue().status == "completed"
    assert work.enqueue().status == "pending"


def test_coroutines_may_be_eager_too(app: Outlast) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async def scene() -> None:
        with eager(app):
            assert (await double.aenqueue(3)).result == 6
            assert double.enqueue(4).result == 8

    asyncio.run(scene())


def test_functions_of_an_async_outlast_may_be_eager_too(database: Any, clock: ManualClock) -> None:
    aio = AsyncOutlast(database, clock=clock)

    @aio.task
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def scene() -> None:
        async with aio:
            with eager(aio):
                task = await double.enqueue(3)
                assert task.result == 6
                assert await task.wait() == 6
                assert (await aio.enqueue("double", {"n": 4})).result == 8
                (one,) = await double.enqueue_many([5])
                assert (await aio.get(one)).result == 10
            assert (await double.enqueue(6)).status == "pending"

    asyncio.run(scene())
