"""A store that cannot be written for a while costs no finished work."""

from pathlib import Path

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.crash.working import write_lock_held
from tests.worker.shift import Shift, eventually


def test_finished_work_outlasts_any_trouble_of_the_store(database: Path) -> None:
    """Guards against giving an outcome up because of what the store is going through: five tries
    and more fail here, and none of them says anything about the outcome."""
    with Outlast(database, settings=Settings(lease_seconds=60)) as app:
        ends: list[int] = []

        @app.task(max_retries=0)
        def work(n: int) -> int:
            ends.append(n)
            return n

        ids = work.enqueue_many(range(4))
        app.pause("default")
        troubles: list[str] = []
        with Shift(app.worker()) as shift:
            eventually(lambda: app.workers())
            app.unpause("default")
            with write_lock_held(database):
                desk = shift.worker._desk
                assert desk is not None
                hear = desk._hear_of_trouble
                desk._hear_of_trouble = lambda news: (  # type: ignore[method-assign]
                    troubles.extend([news.trouble] if news.trouble else []),
                    hear(news),
                )[-1]
                eventually(lambda: len(troubles) >= 6)
            eventually(lambda: app.counts()["completed"] == 4)
        assert [app.get(one).result for one in ids] == [0, 1, 2, 3]


def test_what_was_taken_ahead_and_never_begun_is_not_charged_when_its_lease_runs_out(
    database: Path, clock: ManualClock
) -> None:
    """Guards the neighbours of a long task in a worker that was stopped for longer than a lease."""
    with Outlast(database, clock=clock) as app:
        app.enqueue("work", id="begun")
        app.enqueue("work", id="waiting")
        begun, _ = app.prefetch("w", limit=2)
        begun.start()
        clock.advance("6m")
        assert app.heal().entries_reclaimed == 2
        charged = {one: app.get(one).recovery_count for one in ("begun", "waiting")}
        assert charged == {begun.task_id: 1, "waiting": 0}
        assert app.get("waiting").attempt == 0
