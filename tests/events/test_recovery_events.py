"""What recovery puts into the stream: its start and end, each task, each death, its progress."""

from pathlib import Path

import pytest

from outlast import Event, Outlast, Settings
from tests.events.conftest import DEADLINE_SECONDS, Listener
from tests.support.children import Child
from tests.support.foreign import foreign_rows


def _takes(path: str, count: int) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue_many("work", range(count))
    say(len(app.claim("gone", limit=count)))
    hear()


def _orphans(database: Path, count: int) -> None:
    """A worker is killed with so many tasks in its hands."""
    with Child(_takes, database, count) as child:
        assert child.hear() == count


def _since(app: Outlast, kind: str) -> list[Event]:
    """The last run's events: from the last event of a kind on."""
    events = app.events(limit=100_000)
    last = max(n for n, event in enumerate(events) if event.kind == kind)
    return events[last:]


@pytest.mark.proves("OBS-01", "OBS-02", "OBS-03")
def test_a_recovery_is_told_from_start_to_end_with_each_task_and_each_death(
    database: Path,
) -> None:
    _orphans(database, 3)
    with Outlast(database, settings=Settings(heal_batch=2)) as app:
        run = _since(app, "recovery.started")
        report = app.last_report()
        kinds = [event.kind for event in run]
        assert kinds[0] == "recovery.started"
        assert kinds[-1] == "recovery.completed"
        assert kinds.count("recovery.completed") == kinds.count("worker.dead") == 1
        recovered = [event for event in run if event.kind == "task.recovered"]
        assert len({event.task_id for event in recovered}) == len(recovered) == 3
        assert report is not None
        assert {event.run_id for event in (run[0], *recovered, run[-1])} == {report.run_id}
        assert run[-1].data["put_back"] == 3
        (dead,) = [event for event in run if event.kind == "worker.dead"]
        assert dead.worker == "gone"
        assert (dead.data["put_back"], dead.data["failed"]) == (3, 0), "of all its batches"
        app.recover()
        again = _since(app, "recovery.started")
        assert [event.kind for event in again] == ["recovery.started", "recovery.completed"]


@pytest.mark.proves("OBS-03")
def test_a_death_is_told_once_however_many_look_for_it(database: Path) -> None:
    _orphans(database, 2)
    with Outlast(database) as app:
        for _ in range(3):
            app.heal()
            app.recover()
        assert len(app.events(kinds="worker.dead")) == 1


def test_a_task_that_recovery_holds_is_told_to_be_held_and_then_to_be_let_go(
    database: Path,
) -> None:
    _orphans(database, 1)
    with Outlast(database, settings=Settings(recovery_mode="manual")) as app:
        (held,) = app.events(kinds="task.recovered")
        assert (held.data["to"], held.data["parked"]) == ("pending", "hold")
        assert app.approve_recovery(held.task_id, by="ada")
        (let_go,) = app.events(kinds="task.unparked")
        assert (let_go.task_id, let_go.task_kind, let_go.queue) == (held.task_id, "work", "default")
        (lease,) = app.claim("w")
        lease.fail("again", delay="1m")
        assert [one.data["parked"] for one in app.events(kinds="task.retried")] == ["delay"]


@pytest.mark.proves("OBS-02", "OBS-04")
def test_the_progress_of_ten_thousand_is_told_batch_by_batch(database: Path) -> None:
    """A subscriber that was there before hears of it while it goes on, in order."""
    listener = Listener()
    with Outlast(database) as app, app.subscribe(listener, "monitor"):
        pass
    _orphans(database, 10_000)
    settings = Settings(heal_batch=1000)
    wanted = ["recovery.*", "task.recovered", "worker.dead"]
    with Outlast(database, settings=settings) as app:
        with app.subscribe(listener, "monitor", kinds=wanted) as subscription:
            assert subscription.catch_up(DEADLINE_SECONDS)
        report = app.last_report()
    assert report is not None
    told = [event for event in listener.told if event.run_id == report.run_id]
    kinds = [event.kind for event in told]
    assert (kinds[0], kinds[-1]) == ("recovery.started", "recovery.completed")
    assert kinds.count("task.recovered") == 10_000
    progress = [event for event in told if event.kind == "recovery.progress"]
    assert len(progress) >= 10
    places = [event.pos for event in told]
    assert places == sorted(places)
    found = foreign_rows(
        database,
        "SELECT count(*) FROM transitions WHERE run_id = ? AND reason = 'crash_retry'",
        (report.run_id,),
    )
    assert found == [[10_000]]
