"""How much a worker does at once, and how much it takes ahead of that."""

import asyncio
import time
from pathlib import Path

import pytest

from outlast import Outlast, Status
from tests.support.children import Child
from tests.worker.shift import Gate, Shift, eventually


def test_as_many_handlers_as_there_are_slots_run_at_once_and_no_more(live: Outlast) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> None:
        gate.enter(n)

    work.enqueue_many(range(12))
    with Shift(live.worker(concurrency=3), until_empty=True) as shift:
        gate.wait_for(3)
        assert shift.worker.running == 3
        gate.open()
        assert shift.ended().completed == 12
    assert gate.most_inside == 3


def test_the_same_holds_for_async_functions(live: Outlast) -> None:
    inside: set[int] = set()
    most_inside = 0
    may_go = False

    @live.task
    async def work(n: int) -> None:
        nonlocal most_inside
        inside.add(n)
        most_inside = max(most_inside, len(inside))
        while not may_go:
            await asyncio.sleep(0.005)
        inside.remove(n)

    work.enqueue_many(range(12))
    with Shift(live.worker(concurrency=3), until_empty=True) as shift:
        eventually(lambda: len(inside) == 3)
        may_go = True
        assert shift.ended().completed == 12
    assert most_inside == 3


def test_plain_and_async_functions_share_the_slots(live: Outlast) -> None:
    """After a thousand quick ones a worker takes ahead, so that it has both kinds in hand."""
    gate = Gate()

    @live.task
    def quick(n: int) -> None:
        return None

    @live.task
    def plain(n: int) -> None:
        gate.enter(n)

    @live.task
    async def waits(n: int) -> None:
        await asyncio.to_thread(gate.enter, n)

    quick.enqueue_many(range(1000))
    for n in range(6):
        plain.enqueue(n)
        waits.enqueue(n)
    with Shift(live.worker(concurrency=2), until_empty=True) as shift:
        gate.wait_for(2)
        with pytest.raises(AssertionError):
            eventually(lambda: len(gate.passed) > 2, seconds=0.5)
        gate.open()
        assert shift.ended().completed == 1012
    assert gate.most_inside == 2


def _works_on_long_tasks(path: str, count: int) -> None:
    import threading

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    may_go = threading.Event()
    begun: list[int] = []

    @app.task
    def quick(n: int) -> None:
        return None

    @app.task
    def long(n: int) -> None:
        begun.append(n)
        if len(begun) == count:
            say(sorted(begun))
        may_go.wait(60)

    worker = app.worker(concurrency=count)

    def obey() -> None:
        hear()
        may_go.set()

    threading.Thread(target=obey, daemon=True).start()
    say(worker.run(until_empty=True).completed)


def test_a_worker_that_is_busy_with_long_tasks_leaves_the_others_to_the_next(
    live: Outlast,
) -> None:
    live.enqueue_many("long", [{"n": n} for n in range(8)])
    with Child(_works_on_long_tasks, live.path, 4) as one:
        assert one.hear() == [0, 1, 2, 3]
        with Child(_works_on_long_tasks, live.path, 4) as other:
            assert other.hear() == [4, 5, 6, 7]
            one.say()
            other.say()
            assert one.hear() + other.hear() == 8


@pytest.mark.slow
def test_long_tasks_after_quick_ones_are_not_hoarded(live: Outlast) -> None:
    """What was taken ahead while tasks were quick goes back when they turn out to be long."""
    live.enqueue_many("quick", [{"n": n} for n in range(2000)])
    live.enqueue_many("long", [{"n": n} for n in range(8)])
    with Child(_works_on_long_tasks, live.path, 4) as one:
        assert one.hear() == [0, 1, 2, 3]
        eventually(lambda: live.counts()["pending"] == 4)
        with Child(_works_on_long_tasks, live.path, 4) as other:
            assert other.hear() == [4, 5, 6, 7]
            one.say()
            other.say()
            assert one.hear() + other.hear() == 2008
    assert {task.attempt for task in live.tasks(limit=3000)} == {1}


def test_no_more_is_taken_ahead_than_was_allowed(live: Outlast) -> None:
    gate = Gate()
    in_hand: list[int] = []

    @live.task
    def work(n: int) -> None:
        if n == 1500:
            gate.enter(n)
        if n % 10 == 0:
            in_hand.append(live.counts()["running"])

    work.enqueue_many(range(3000))
    with Shift(live.worker(concurrency=1, prefetch=20), until_empty=True) as shift:
        gate.wait_for(1)
        ahead = eventually(lambda: live.counts()["running"])
        assert ahead <= 1 + 20 + 20, "those in hand, and those done and not yet settled"
        gate.open()
        assert shift.ended().completed == 3000
    assert max(in_hand) > 1, "quick tasks are taken ahead"


def test_without_prefetch_a_worker_holds_what_it_runs(live: Outlast) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> None:
        if n == 150:
            gate.enter(n)

    work.enqueue_many(range(300))
    with Shift(live.worker(concurrency=1, prefetch=0), until_empty=True) as shift:
        gate.wait_for(1)
        eventually(lambda: live.counts()["completed"] == 150)
        assert live.counts()["running"] == 1
        gate.open()
        assert shift.ended().completed == 300


def test_a_waiting_worker_takes_a_new_task_at_once(live: Outlast) -> None:
    @live.task
    def work() -> None:
        return None

    with Shift(live.worker()):
        work.enqueue().wait(30)
        waits = []
        for _ in range(10):
            began_at = time.monotonic()
            work.enqueue().wait(30)
            waits.append(time.monotonic() - began_at)
        assert sorted(waits)[2] < 0.15, "by a wake-up, not by the next look"


def test_two_workers_of_one_process_share_the_work(live: Outlast, database: Path) -> None:
    gate = Gate()

    @live.task
    def work(n: int) -> None:
        gate.enter(n)

    work.enqueue_many(range(4))
    one, other = live.worker(name="a", concurrency=2), live.worker(name="b", concurrency=2)
    with Shift(one, until_empty=True) as first, Shift(other, until_empty=True) as second:
        gate.wait_for(4)
        held = {worker.name: worker.task_count for worker in live.workers()}
        assert held == {"a": 2, "b": 2}
        gate.open()
        assert first.ended().completed + second.ended().completed == 4
    assert {task.status for task in live.tasks()} == {Status.COMPLETED}
