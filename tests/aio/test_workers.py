"""A worker beside a running loop."""

import asyncio
import inspect
from pathlib import Path

from outlast import AsyncOutlast, Outlast


def test_a_worker_is_made_with_the_same_words_as_for_threads() -> None:
    ours, theirs = AsyncOutlast.worker, Outlast.worker
    assert list(inspect.signature(ours).parameters.values()) == list(
        inspect.signature(theirs).parameters.values()
    )


def test_a_worker_drains_the_queue_while_the_loop_goes_on(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncOutlast(tmp_path / "work.db") as app:

            @app.task
            async def double(number: int) -> int:
                return 2 * number

            ids = await app.enqueue_many("double", [{"number": n} for n in range(20)])
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turn())
            tally = await app.worker().run(until_empty=True)
            turning.cancel()
            assert tally.completed == 20
            assert turns > 20
            assert [(await app.get(one)).result for one in ids] == [2 * n for n in range(20)]

    asyncio.run(program())


def test_a_cancelled_run_stops_the_worker_and_waits_for_it(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncOutlast(tmp_path / "work.db") as app:
            began = asyncio.Event()
            loop = asyncio.get_running_loop()

            @app.task
            def polite(ctx) -> str:  # type: ignore[no-untyped-def]
                loop.call_soon_threadsafe(began.set)
                ctx.wait(60)
                return "stopped"

            task = await app.enqueue("polite", {})
            running = asyncio.create_task(app.worker().run())
            await asyncio.wait_for(began.wait(), 60)
            running.cancel()
            assert await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            assert (await app.get(task.id)).result == "stopped"

    asyncio.run(program())
