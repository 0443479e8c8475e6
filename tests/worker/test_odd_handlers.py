"""Handlers that do what few do: end early, go on after the end, exit, say odd things."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outlast import GiveBack, InvalidInput, Outlast, StoreReplaced
from tests.worker.conftest import MakeApp
from tests.worker.shift import Gate, Shift, eventually

LARGE = 900_000


def test_a_large_result_is_stored_without_waiting_for_the_next_beat(live: Outlast) -> None:
    """Guards the rest of a letter that did not fit the socket at once."""

    @live.task
    def large() -> str:
        return "x" * LARGE

    task = large.enqueue()
    with Shift(live.worker(concurrency=1)):
        assert len(live.wait(task.id, timeout=20)) == LARGE


def test_a_handler_that_completed_its_task_itself_may_go_on(live: Outlast) -> None:
    seen: list[bool] = []

    @live.task
    def tidies_up(ctx: Any) -> None:
        ctx.complete("done")
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            time.sleep(0.05)
            seen.append(ctx.cancelled)

    @live.task
    async def tidies_up_soon(ctx: Any) -> None:
        await ctx.acomplete("done")
        await asyncio.sleep(1.5)
        seen.append(ctx.cancelled)

    tasks = [tidies_up.enqueue(), tidies_up_soon.enqueue()]
    tally = live.worker().run(until_empty=True)
    assert (tally.completed, tally.lost) == (2, 0)
    assert len(seen) > 10
    assert not any(seen)
    assert [live.get(task.id).result for task in tasks] == ["done", "done"]


def test_an_exit_in_a_subtask_fails_its_own_task_and_no_other(live: Outlast) -> None:
    @live.task(max_retries=0)
    async def leaves() -> None:
        async def part() -> None:
            sys.exit(3)

        await asyncio.gather(part())

    @live.task
    async def stays(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    bad = leaves.enqueue()
    ids = stays.enqueue_many(range(5))
    live.worker().run(until_empty=True)
    assert (live.get(bad.id).error or "").startswith("SystemExit")
    assert [live.get(one).result for one in ids] == list(range(5))


def test_what_is_given_back_is_not_charged_and_not_failed(live: Outlast) -> None:
    attempts: list[int] = []

    @live.task(max_retries=0)
    def busy(ctx: Any) -> str:
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise GiveBack
        return "at last"

    task = busy.enqueue()
    tally = live.worker().run(until_empty=True)
    assert attempts == [1, 1, 1]
    assert (tally.completed, tally.failed, tally.released) == (1, 0, 2)
    assert live.get(task.id).result == "at last"


@pytest.mark.parametrize("odd", [float("inf"), float("nan"), {1: 2}, "x" * 5000])
def test_progress_that_cannot_be_stored_is_refused_where_it_is_said(
    live: Outlast, odd: Any
) -> None:
    @live.task(max_retries=0)
    def says(ctx: Any) -> str:
        with pytest.raises(InvalidInput):
            ctx.progress(1, odd)
        return "refused"

    task = says.enqueue()
    live.worker().run(until_empty=True)
    assert live.get(task.id).result == "refused"
    assert live.workers()


def test_two_workers_of_one_name_are_refused_across_the_objects_of_a_process(
    make_live: MakeApp,
) -> None:
    first, second = make_live(), make_live()
    gate = Gate()
    for app in (first, second):

        @app.task(name="work")
        def work() -> None:
            gate.enter()

    first.enqueue("work")
    with Shift(first.worker(name="twin")):
        gate.wait_for(1)
        with pytest.raises(InvalidInput, match="a worker called 'twin' runs in this process"):
            second.worker(name="twin").run(until_empty=True)
        gate.open()
        eventually(lambda: first.counts()["completed"] == 1)


def test_a_worker_whose_store_was_removed_ends_and_says_so(live: Outlast) -> None:
    calls: list[bool] = []

    @live.task
    def work(ctx: Any) -> None:
        calls.append(True)
        while not ctx.cancelled:
            ctx.wait(0.1)

    work.enqueue()
    live.enqueue("of others")
    shift = Shift(live.worker())
    with suppress(StoreReplaced), shift:
        eventually(lambda: bool(calls))
        for name in ("work.db", "work.db-wal", "work.db-shm"):
            (Path(live.path).parent / name).unlink(missing_ok=True)
        eventually(lambda: shift.is_over)
    assert isinstance(shift.error, StoreReplaced)
