"""The budget of crashes protects work that goes on, and ends work that only kills its workers."""

from pathlib import Path

import pytest

from outlast import InvalidInput, Outlast, Settings
from outlast.testing import ManualClock
from tests.support.children import Child
from tests.support.foreign import foreign_rows

STEPS, KILLS = 20, 12


def lose(app: Outlast, clock: ManualClock) -> None:
    """The lease of whoever has the task runs out."""
    clock.advance("1h")
    app.heal()


@pytest.mark.proves("RTY-03")
def test_progress_of_the_handler_sets_back_the_crashes_that_count(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    for number in range(1, 8):
        (lease,) = app.claim("w", lease="1m")
        lease.checkpoint("iteration_end", {"step": number})
        lose(app, clock)
        task = app.get("t")
        assert (task.status, task.crashes_in_row, task.recovery_count) == ("pending", 1, number)


def test_the_begin_of_a_step_is_no_progress(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t")
    for _ in range(4):
        (lease,) = app.claim("w", lease="1m")
        lease.checkpoint("iteration_start", {})
        lose(app, clock)
    assert (app.get("t").status, app.get("t").attempt) == ("failed", 4)


def _is_killed_again_and_again(path: str, steps: int, kills: int) -> None:
    """A worker whose one task checkpoints each step and kills its process at some of them."""
    import os
    import signal

    from outlast import Context, Outlast

    app = Outlast(path)

    @app.task
    def twenty_steps(ctx: Context) -> int:
        newest = ctx.latest_checkpoint("iteration_end")
        for step in range(0 if newest is None else newest.data["step"] + 1, steps):
            ctx.checkpoint("iteration_end", {"step": step})
            if step < kills:
                os.kill(os.getpid(), signal.SIGKILL)
        return steps

    @app.task
    def poison() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    app.worker(concurrency=1).run(until_empty=True)


def run_until_it_ends(database: Path, kind: str) -> int:
    """How many workers it takes."""
    with Outlast(database) as app:
        task = app.enqueue(kind)
        for workers in range(1, STEPS):
            with Child(_is_killed_again_and_again, database, STEPS, KILLS) as child:
                child.wait()
            if app.get(task.id).is_final:
                return workers
            app.heal()
            if app.get(task.id).is_final:
                return workers
    raise AssertionError("it never ends")


@pytest.mark.proves("RTY-03")
@pytest.mark.timeout(120)
def test_twenty_steps_that_are_killed_twelve_times_are_completed(database: Path) -> None:
    assert run_until_it_ends(database, "twenty_steps") == KILLS + 1
    with Outlast(database) as app:
        assert app.counts()["completed"] == 1


@pytest.mark.proves("RTY-03")
def test_a_task_that_kills_its_process_before_any_progress_fails_after_four_executions(
    database: Path,
) -> None:
    assert run_until_it_ends(database, "poison") == 4
    with Outlast(database) as app:
        (task,) = app.tasks(status="failed")
        assert (task.attempt, task.crashes_in_row) == (4, 3)
        assert str(task.error).startswith("died 4 of 4 times")


@pytest.mark.parametrize("way", ["enqueue", "enqueue_many", "using", "decorator"])
def test_a_task_may_have_a_budget_of_its_own(app: Outlast, clock: ManualClock, way: str) -> None:
    @app.task(max_recoveries=1 if way == "decorator" else None)
    def work() -> None: ...

    if way == "enqueue":
        app.enqueue("work", id="t", max_recoveries=1)
    elif way == "enqueue_many":
        app.enqueue_many("work", [None], id=["t"], max_recoveries=1)
    else:
        work.using(id="t", max_recoveries=1 if way == "using" else None).enqueue()
    assert app.get("t").max_recoveries == 1
    for status in ("pending", "failed"):
        app.claim("w", lease="1m")
        lose(app, clock)
        assert app.get("t").status == status


@pytest.mark.parametrize("wrong", [-1, 101, True, "3", 1.0])
def test_a_budget_that_makes_no_sense_is_refused(app: Outlast, wrong: object) -> None:
    with pytest.raises(InvalidInput, match="max_recoveries must be a whole number from 0 to 100"):
        app.enqueue("work", max_recoveries=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="max_recoveries must be a whole number from 0 to 100"):
        app.task(max_recoveries=wrong)  # type: ignore[call-overload]


def test_a_task_that_says_nothing_goes_by_the_settings_of_who_recovers_it(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="own", max_recoveries=1)
    app.enqueue("work", id="none")
    app.claim("w", limit=2, lease="1m")
    clock.advance("1h")
    with Outlast(app.path, clock=clock, settings=Settings(max_recovery_attempts=0)) as strict:
        strict.heal()
        assert {task.id: task.status for task in strict.tasks()} == {
            "own": "pending", "none": "failed",
        }  # fmt: skip


@pytest.mark.proves("RTY-01")
def test_the_view_of_the_seed_never_shows_more_retries_than_allowed(
    app: Outlast, clock: ManualClock, database: Path
) -> None:
    app.enqueue("work", max_retries=0)
    for _ in range(3):
        app.claim("w", lease="1m")
        lose(app, clock)
    app.close()
    view = "SELECT retry_count, max_retries FROM work_items"
    assert foreign_rows(database, view) == [[0, 0]]
