"""When outcomes are stored: in company where there is some, at once where there is none."""

import pytest

from outlast import Outlast, Status
from outlast.tasks.context import Context
from outlast.testing import ManualClock
from tests.store.trace import Trace
from tests.worker.conftest import MakeApp
from tests.worker.shift import Gate, Shift, eventually


def test_many_quick_tasks_take_far_fewer_commits_than_tasks(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock of its own the store process is a thread, so its statements can be heard."""
    trace = Trace(monkeypatch)
    app = make_app()

    @app.task
    def quick(n: int) -> int:
        return n

    quick.enqueue_many(range(1000))
    with trace.listening() as ran:
        assert app.worker().run(until_empty=True).completed == 1000
    commits = sum(one.text.strip().upper().startswith("COMMIT") for one in ran)
    assert 0 < commits <= 250


def test_a_lone_outcome_does_not_wait_for_company(make_live: MakeApp) -> None:
    app = make_live(settle_delay_seconds=20)

    @app.task
    def lone() -> int:
        return 1

    with Shift(app.worker()):
        assert lone.enqueue().wait(10) == 1
        assert lone.enqueue().wait(10) == 1


def test_an_outcome_does_not_wait_for_a_long_task_beside_it(live: Outlast) -> None:
    gate = Gate()

    @live.task
    def long() -> None:
        gate.enter()

    @live.task
    def quick() -> int:
        return 1

    with Shift(live.worker(concurrency=2)):
        long.enqueue()
        gate.wait_for(1)
        assert quick.enqueue().wait(10) == 1
        gate.open()


def test_a_full_batch_does_not_wait_for_the_delay(make_live: MakeApp) -> None:
    app = make_live(settle_delay_seconds=20)
    gate = Gate()

    @app.task
    def long() -> None:
        gate.enter()

    @app.task
    def quick(n: int) -> None:
        return None

    long.enqueue()
    with Shift(app.worker(concurrency=2, prefetch=8)):
        gate.wait_for(1)
        quick.enqueue_many(range(400))
        eventually(lambda: app.counts()["completed"] >= 300, seconds=15)
        gate.open()


def test_a_result_counts_only_when_it_is_committed(make_live: MakeApp) -> None:
    """The tally is what the store has, at any moment."""
    app = make_live(settle_delay_seconds=0.5)
    gate = Gate()

    @app.task
    def long() -> None:
        gate.enter()

    @app.task
    def quick() -> None:
        return None

    with Shift(app.worker(concurrency=2)) as shift:
        long.enqueue()
        gate.wait_for(1)
        task = quick.enqueue()
        eventually(lambda: shift.worker.tally.completed == 1)
        assert app.get(task.id).status is Status.COMPLETED
        gate.open()


def test_a_thread_takes_its_next_task_before_the_last_one_is_stored(live: Outlast) -> None:
    """Guards the speed of short tasks: had each waited for its disk, none would see another's
    outcome on the way."""
    began_before_the_last_was_stored = []
    worker = live.worker(concurrency=1, prefetch=64)

    @live.task
    def quick(n: int) -> None:
        began_before_the_last_was_stored.append(worker.tally.completed < n)

    quick.enqueue_many(range(400))
    assert worker.run(until_empty=True).completed == 400
    assert sum(began_before_the_last_was_stored) > 100


def test_on_a_clock_that_stands_still_a_worker_works_and_waits_for_the_clock(
    make_app: MakeApp, clock: ManualClock
) -> None:
    app = make_app(retry_backoff_seconds=600, retry_backoff_cap_seconds=600)

    @app.task
    def at_the_second_try(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return ctx.attempt

    task = at_the_second_try.enqueue()
    with Shift(app.worker(), until_empty=True) as shift:
        eventually(lambda: shift.worker.tally.failed == 1)
        assert app.get(task.id).status is Status.PENDING
        assert not shift.is_over
        clock.advance("10m")
        app.enqueue("of others")
        assert shift.ended().completed == 1
    assert app.get(task.id).result == 2


def test_a_worker_runs_tasks_that_others_put_in(live: Outlast, make_live: MakeApp) -> None:
    @live.task
    def work(n: int) -> int:
        return n

    other = make_live()
    with Shift(live.worker()):
        assert other.enqueue("work", {"n": 5}).wait(30) == 5
