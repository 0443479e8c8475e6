"""What a worker does with a task that goes well."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, Status
from outlast.tasks.context import Context
from tests.support.children import Child
from tests.support.foreign import assert_sound
from tests.worker.shift import Shift, eventually


@pytest.mark.proves("TST-28")
def test_a_task_is_enqueued_claimed_run_and_done(live: Outlast) -> None:
    @live.task
    def add(a: int, b: int) -> int:
        return a + b

    task = add.enqueue(1, b=2)
    tally = live.worker().run(until_empty=True)
    assert (tally.completed, tally.failed, tally.released, tally.lost) == (1, 0, 0, 0)
    done = live.get(task.id)
    assert (done.status, done.result, done.attempt) == (Status.COMPLETED, 3, 1)
    moves = [(move.from_status, move.to_status, move.reason) for move in live.history(task.id)]
    assert moves == [("pending", "running", "claimed"), ("running", "completed", "completed")]
    live.close()
    assert_sound(live.path)


def test_plain_and_async_functions_run_with_or_without_the_context(live: Outlast) -> None:
    @live.task
    def plain(n: int) -> int:
        return n + 1

    @live.task
    def plain_with(ctx: Context, n: int) -> list[Any]:
        return [ctx.task_id, ctx.kind, ctx.queue, ctx.group, ctx.attempt, n]

    @live.task
    async def waits(n: int) -> int:
        await asyncio.sleep(0)
        return n + 2

    @live.task
    async def waits_with(ctx: Context, n: int) -> list[Any]:
        await asyncio.sleep(0)
        return [ctx.task_id, ctx.attempt, n]

    one, two = plain.enqueue(1), plain_with.using(id="p", group="g").enqueue(2)
    three, four = waits.enqueue(3), waits_with.using(id="w").enqueue(4)
    assert live.worker().run(until_empty=True).completed == 4
    results = [live.get(task.id).result for task in (one, two, three, four)]
    assert results == [2, ["p", "plain_with", "default", "g", 1, 2], 5, ["w", 1, 4]]


def test_a_result_is_what_comes_back_from_its_text(live: Outlast) -> None:
    """Whoever reads a result later must see the same as whoever waited for it at once."""

    @dataclass
    class Point:
        x: int

    results: list[Any] = [None, (1, 2), {"a": Point(3)}, "ü\n\0", 2**53, [], 1.5, "x" * 5000]
    expected = [None, [1, 2], {"a": {"x": 3}}, "ü\n\0", 2**53, [], 1.5, "x" * 5000]

    @live.task
    def pick(n: int) -> Any:
        return results[n]

    ids = pick.enqueue_many(range(len(results)))
    live.worker().run(until_empty=True)
    assert [live.get(one).result for one in ids] == expected


def test_someone_who_waits_gets_the_result_from_a_worker_in_another_thread(live: Outlast) -> None:
    @live.task
    def double(n: int) -> int:
        return 2 * n

    with Shift(live.worker()) as shift:
        assert double.enqueue(21).wait(30) == 42
        assert double.enqueue(4).wait(30) == 8
        eventually(lambda: shift.worker.tally.completed == 2)
        shift.worker.stop()
        assert shift.ended().completed == 2


def _runs_in_the_main_thread(path: str) -> None:
    import signal
    import threading

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path)

    @app.task
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    task = where.enqueue()
    tally = app.worker().run(until_empty=True)
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    say([tally.completed, app.get(task.id).result, before == after])


def test_a_run_in_the_main_thread_leaves_the_signals_as_they_were(live: Outlast) -> None:
    with Child(_runs_in_the_main_thread, live.path) as child:
        assert child.hear() == [1, False, True]
        assert child.wait() == 0, child.error()


def test_the_threads_of_a_worker_say_whose_they_are(live: Outlast) -> None:
    @live.task
    def plain() -> str:
        return threading.current_thread().name

    @live.task
    async def on_the_loop() -> str:
        return threading.current_thread().name

    tasks = [plain.enqueue(), on_the_loop.enqueue()]
    live.worker().run(until_empty=True)
    assert [live.get(task.id).result for task in tasks] == ["outlast-1", "outlast-loop"]


def test_a_handler_may_enqueue_what_follows(live: Outlast) -> None:
    """The worker that runs it must not call the queue empty before the last of them is done."""

    @live.task
    def count_down(n: int) -> int:
        if n:
            count_down.enqueue(n - 1)
        return n

    @live.task
    async def count_up(n: int) -> int:
        if n < 3:
            await count_up.aenqueue(n + 1)
        return n

    count_down.enqueue(5)
    count_up.enqueue(0)
    assert live.worker(concurrency=2).run(until_empty=True).completed == 10
    assert live.counts()["pending"] == 0


def test_a_handler_may_use_the_store_it_came_from(live: Outlast) -> None:
    live.enqueue("by hand", {"n": 7}, id="other")

    @live.task
    def works_by_hand(ctx: Context) -> Any:
        (lease,) = live.claim("a handler", kinds=["by hand"])
        lease.complete(lease.payload)
        return [live.get(ctx.task_id).status, live.get("other").result]

    task = works_by_hand.enqueue()
    live.worker().run(until_empty=True)
    assert live.get(task.id).result == ["running", {"n": 7}]


def test_a_worker_can_run_again_when_its_run_has_ended(live: Outlast) -> None:
    @live.task
    def nothing() -> None:
        return None

    worker = live.worker()
    for _ in range(2):
        nothing.enqueue()
        assert worker.run(until_empty=True).completed == 1
    with Shift(worker) as shift:
        nothing.enqueue().wait(30)
        worker.stop()
        assert shift.ended().completed == 1
    nothing.enqueue()
    assert worker.run(until_empty=True).completed == 1


def test_a_worker_that_runs_is_not_run_twice(live: Outlast) -> None:
    @live.task
    def nothing() -> None:
        return None

    with Shift(live.worker()) as shift:
        nothing.enqueue().wait(30)
        with pytest.raises(InvalidInput, match="runs already; make another one"):
            shift.worker.run()
        assert nothing.enqueue().wait(30) is None, "the first run goes on"
