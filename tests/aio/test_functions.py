import asyncio
from typing import Any

import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast
from outlast.tasks.context import Context

NOTHING = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}


def test_a_function_of_an_outlast_is_enqueued_from_a_coroutine(app: Outlast) -> None:
    @app.task(queue="gpu", priority=2)
    def render(n: int) -> None: ...

    async def scene() -> None:
        first = await render.aenqueue(1)
        facts = first.queue, first.priority, first.payload
        assert facts == ("gpu", 2, {"n": 1})
        assert app.get(first.id) == first
        using = render.using(queue="cpu", idempotency_key="k")
        second = await using.aenqueue(2)
        assert (await using.aenqueue(2)).id == second.id
        assert second.queue == "cpu"
        await asyncio.gather(*(render.aenqueue(n) for n in range(300)))

    asyncio.run(scene())
    assert app.counts()["pending"] == 302
    assert app.counts("cpu")["pending"] == 1


def test_a_wrong_call_from_a_coroutine_is_refused_before_the_store_is_made(app: Outlast) -> None:
    @app.task
    def render(n: int) -> None: ...

    with pytest.raises(InvalidInput, match=r"argument n of render\(\) must be int"):
        asyncio.run(render.aenqueue("x"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="delay must look like"):
        asyncio.run(render.using(delay="soon").aenqueue(1))
    assert not app.path.exists()


def test_functions_of_an_async_outlast_are_enqueued_by_awaiting(aio: AsyncOutlast) -> None:
    @aio.task(queue="gpu", max_retries=1)
    async def render(ctx: Context, n: int, deep: bool = False) -> None: ...

    async def scene() -> None:
        tasks = [
            await render.enqueue(1),
            await render.aenqueue(1),
            await aio.enqueue("render", {"n": 1}),
            *[await aio.get(one) for one in await render.enqueue_many([1])],
            *[await aio.get(one) for one in await aio.enqueue_many("render", [{"n": 1}])],
        ]
        facts = {(one.kind, one.queue, one.max_retries, str(one.payload)) for one in tasks}
        assert facts == {("render", "gpu", 1, "{'n': 1}")}
        task = await render.using(id="t1", queue="cpu", priority=3).enqueue(2, deep=True)
        assert (task.id, task.queue, task.priority) == ("t1", "cpu", 3)
        assert task.payload == {"n": 2, "deep": True}
        with pytest.raises(TimeoutError):
            await task.wait(timeout=0.01)
        using = render.using(idempotency_key="k")
        assert (await using.enqueue(3)).id == (await using.enqueue(3)).id
        await aio.close()

    asyncio.run(scene())


def test_an_async_outlast_refuses_wrong_calls_before_the_store_is_made(aio: AsyncOutlast) -> None:
    @aio.task
    def render(n: int) -> None: ...

    wrong: list[Any] = [
        lambda: render.enqueue("x"),  # type: ignore[arg-type]
        lambda: render.aenqueue(m=1),  # type: ignore[call-arg]
        lambda: render.enqueue_many([1, "x"]),
        lambda: aio.enqueue("render", {"m": 1}),
        lambda: aio.enqueue_many("render", [5]),
    ]
    for call in wrong:
        with pytest.raises(InvalidInput, match=r"render\(\)"):
            asyncio.run(call())
    assert not aio.path.exists()


def test_a_plain_call_of_an_async_function_is_its_coroutine(aio: AsyncOutlast) -> None:
    @aio.task(name="double it")
    async def double(n: int) -> int:
        return 2 * n

    assert asyncio.run(double(21)) == 42
    assert (double.is_async, double.wants_context) == (True, False)
    assert dict(aio.functions) == {"double it": double}


def test_coroutines_and_threads_see_the_same_functions(aio: AsyncOutlast) -> None:
    @aio.task
    def render(n: int) -> None: ...

    async def scene() -> None:
        task = await aio.in_thread(Outlast.enqueue, "render", {"n": 1})
        assert task.payload == {"n": 1}
        with pytest.raises(InvalidInput, match=r"render\(\)"):
            await aio.in_thread(Outlast.enqueue, "render", {"n": "x"})

    asyncio.run(scene())
