"""What a worker does with a task that goes wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from outlast import Outlast, PermanentError, Status
from outlast.tasks.context import Context
from tests.worker.conftest import MakeApp
from tests.worker.shift import Shift, eventually


class Untellable(Exception):
    """Even asking what went wrong goes wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no message either")


@pytest.mark.proves("RTY-11")
def test_every_failure_is_kept_with_its_attempt_and_the_row_shows_the_last(
    make_live: MakeApp,
) -> None:
    app = make_live(retry_backoff_seconds=0.01, retry_backoff_cap_seconds=0.01)

    @app.task(max_retries=2)
    def fails(ctx: Context) -> None:
        raise ValueError(f"failure {ctx.attempt}")

    task = fails.enqueue()
    assert app.worker().run(until_empty=True).failed == 3
    ends = [move for move in app.history(task.id) if move.from_status is Status.RUNNING]
    assert [move.attempt for move in ends] == [1, 2, 3]
    errors = [(move.error or "").splitlines()[0] for move in ends]
    assert errors == ["ValueError: failure 1", "ValueError: failure 2", "ValueError: failure 3"]
    found = app.get(task.id)
    assert (found.status, found.retry_count) == (Status.FAILED, 2)
    assert found.error == ends[-1].error


def test_a_function_waits_between_its_tries_as_long_as_it_says(make_live: MakeApp) -> None:
    app = make_live(retry_backoff_seconds=3600, retry_backoff_cap_seconds=3600)

    @app.task(max_retries=1, backoff=0.4)
    def own_wait() -> None:
        raise ValueError("no")

    @app.task(max_retries=40, backoff=1000, backoff_cap=1200)
    def own_cap() -> None:
        raise ValueError("no")

    @app.task
    def settings_wait() -> None:
        raise ValueError("no")

    own, theirs = own_wait.enqueue(), settings_wait.enqueue()
    app.worker(kinds=["own_wait"]).run(until_empty=True)
    first, second = [m for m in app.history(own.id) if m.to_status is Status.RUNNING]
    assert (second.at - first.at).total_seconds() >= 0.2
    assert app.get(own.id).status is Status.FAILED
    mine = own_cap.enqueue()
    with Shift(app.worker()) as shift:
        eventually(lambda: shift.worker.tally.failed == 2)
    for task, least, most in ((theirs, 1800, 3600), (mine, 500, 1000)):
        found = app.get(task.id)
        assert found.not_before is not None
        wait_seconds = (found.not_before - found.state_changed_at).total_seconds()
        assert least <= wait_seconds <= most


def test_a_permanent_error_is_not_tried_again(live: Outlast) -> None:
    @live.task(max_retries=5)
    def hopeless() -> None:
        raise PermanentError("the account is closed")

    @live.task(max_retries=5)
    async def hopeless_too() -> None:
        raise PermanentError("the account is closed")

    for task in (hopeless.enqueue(), hopeless_too.enqueue()):
        live.worker().run(until_empty=True)
        found = live.get(task.id)
        assert (found.status, found.attempt) == (Status.FAILED, 1)
        assert (found.error or "").startswith("PermanentError: the account is closed\n")


def test_a_payload_that_does_not_fit_fails_for_good_and_says_what_is_wrong(
    live: Outlast, make_live: MakeApp
) -> None:
    other = make_live()
    bad = [other.enqueue("add", payload) for payload in ({"a": 1}, {"a": 1, "b": "x"}, [1, 2], 7)]
    calls = []

    @live.task(max_retries=5)
    def add(a: int, b: int) -> int:
        calls.append((a, b))
        return a + b

    assert live.worker().run(until_empty=True).failed == 4
    assert calls == []
    for task in bad:
        found = live.get(task.id)
        assert (found.status, found.attempt) == (Status.FAILED, 1)
        assert "add()" in (found.error or "")
    assert "b" in (live.get(bad[0].id).error or "").splitlines()[0]


@pytest.mark.parametrize(
    "result",
    [object, lambda: float("nan"), lambda: "\ud800", lambda: {1: {2: {3}}, "x": open}],
    ids=["an object", "not a number", "half a character", "a function within"],
)
def test_a_result_that_cannot_be_stored_fails_for_good(
    live: Outlast, result: Callable[[], Any]
) -> None:
    """Trying again would do the work again, only to fail again."""
    calls = []

    @live.task(max_retries=5)
    def work() -> Any:
        calls.append(1)
        return result()

    task = work.enqueue()
    live.worker().run(until_empty=True)
    found = live.get(task.id)
    assert (found.status, found.attempt, found.result) == (Status.FAILED, 1, None)
    assert "the work was done, but" in (found.error or "")
    assert calls == [1]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, Untellable, MemoryError])
def test_whatever_a_handler_raises_is_an_outcome_and_the_worker_goes_on(
    live: Outlast, error: type[BaseException]
) -> None:
    @live.task(max_retries=0)
    def breaks() -> None:
        raise error

    @live.task(max_retries=0)
    async def breaks_the_loop() -> None:
        raise error

    @live.task
    def works() -> None:
        return None

    broken = [breaks.enqueue(), breaks_the_loop.enqueue()]
    works.enqueue()
    tally = live.worker(concurrency=1).run(until_empty=True)
    assert (tally.completed, tally.failed) == (1, 2)
    for task in broken:
        assert (live.get(task.id).error or "").startswith(error.__name__)
