"""What a run keeps of itself: candidates, counts, time; and that a second one is idle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Batch, Outlast
from outlast.errors import DatabaseError, OutlastError, StoreBusy
from outlast.store.access import Access
from outlast.store.ops.recovery import run_rows
from outlast.testing import ManualClock
from tests.recovery.stage import FROZEN, by_hand, content, crash, holder, rows

Make = Callable[..., Outlast]


def lose(app: Outlast, database: Path, count: int, worker: str = "victim") -> list[str]:
    """So many tasks are enqueued, taken and lost by a process that is killed."""
    ids = app.enqueue_many("work", range(count))
    app.close()
    assert crash(database, worker, count) == ids
    return ids


@pytest.mark.proves("REC-10")
def test_every_running_task_is_a_candidate_and_no_other_is(
    make_app: Make, database: Path, clock: ManualClock
) -> None:
    app = make_app()
    orphans = lose(app, database, 4)
    app.open()
    mine = app.enqueue_many("mine", range(3))
    (lease,) = app.claim("w", kinds=["mine"], limit=1)
    app.enqueue("done", id="done")
    app.claim("w", kinds=["done"])[0].complete()
    app.enqueue("short", id="short")
    app.claim("w", kinds=["short"], lease="10s")
    clock.advance("1m")
    planned = {one.task_id: (one.orphaned is not None) for one in app.recovery_plan()}
    running = rows(database, "SELECT id FROM tasks WHERE status = 'running'")
    assert set(planned) == {task_id for (task_id,) in running}
    assert (planned[lease.task_id], planned["short"]) == (False, True)
    assert mine[1] not in planned
    assert app.get(orphans[1]).status == "pending", "what was put back is no candidate any more"


@pytest.mark.proves("REC-10")
def test_the_plan_of_a_crashed_store_lists_each_task_with_the_decision_that_then_comes_true(
    make_app: Make, database: Path
) -> None:
    app = make_app(recovery_action_by_kind={"hopeless": "fail", "care": "none"})
    app.enqueue("care", id="care")
    app.enqueue("hopeless", id="hopeless")
    lose_all = ["care", "hopeless", *app.enqueue_many("work", range(3))]
    app.close()
    with holder(database) as child:
        assert child.hear() == lose_all
        living = [one.reason for one in app.recovery_plan()]
        assert living == ["held"] * 5
        app.close()
        child.kill()
    planned = {one.task_id: (one.to, one.reason) for one in app.recovery_plan()}
    assert set(planned) == set(lose_all)
    running = rows(database, "SELECT count(*) FROM tasks WHERE status = 'running'")
    assert running == [(5,)], "nothing was changed"
    report = app.recover()
    assert report.tasks_running_before == 5
    done = {one.task_id: (one.status, one.reason) for one in app.recovered(report.run_id)}
    assert planned == done | {"care": ("running", "skipped")}


@pytest.mark.proves("REC-19")
def test_each_recovery_adds_one_to_its_task_and_to_the_whole(
    make_app: Make, database: Path
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    for time in (1, 2, 3):
        crash(database)
        app.open()
        assert app.get("t").recovery_count == time
        app.close()
    query = "SELECT sum(put_back), sum(failed) FROM recovery_runs"
    assert rows(database, query) == [(3, 0)]
    crash(database)
    app.open()
    assert rows(database, query) == [(3, 1)]
    by_recovery = "SELECT count(*) FROM transitions WHERE actor = 'system/recovery'"
    assert rows(database, by_recovery) == [(4,)]


@pytest.mark.proves("REC-19")
def test_the_time_a_run_took_is_kept(make_app: Make, database: Path, clock: ManualClock) -> None:
    app = make_app(heal_batch=1)
    lose(app, database, 3)
    app.recover(on_batch=lambda batch: clock.advance("2s"))
    report = make_app().last_report()
    assert report is not None
    assert report.duration_seconds == 6
    assert sum(step.seconds for step in report.steps) > 0


EVENTS_OF_RUNS = "SELECT run_id, kind FROM events WHERE kind GLOB 'recovery.*' ORDER BY pos"


@pytest.mark.proves("REC-01")
def test_a_run_is_put_on_record_by_the_transaction_that_changes_something_first(
    make_app: Make, database: Path
) -> None:
    app = make_app(heal_batch=2)
    lose(app, database, 3)
    before = len(rows(database, "SELECT id FROM recovery_runs"))
    seen: list[tuple[int, Any]] = []

    def look(batch: Batch) -> None:
        (newest, *_) = rows(database, "SELECT id, completed_at FROM recovery_runs ORDER BY id DESC")
        seen.append(newest)

    report = app.recover(on_batch=look)
    assert report.run_id == before + 1
    assert seen == [(report.run_id, None)] * 2
    told = [kind for run_id, kind in rows(database, EVENTS_OF_RUNS) if run_id == report.run_id]
    assert told == [
        "recovery.started", "recovery.progress", "recovery.progress", "recovery.completed",
    ]  # fmt: skip


@pytest.mark.proves("OBS-01")
def test_a_first_batch_whose_answer_was_lost_leaves_a_run_that_began_once(
    make_app: Make, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    lose(app, database, 2)
    write = Access.write
    lost: list[str] = []

    def lost_on_the_way(self: Access, context: str, *rest: Any, **named: Any) -> Any:
        result = write(self, context, *rest, **named)
        if context == "heal" and not lost:
            lost.append(context)
            raise DatabaseError("the answer was lost", OSError())
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Access, "write", lost_on_the_way)
        with pytest.raises(OutlastError, match="the answer was lost"):
            app.recover()
    run_id = rows(database, "SELECT max(id) FROM recovery_runs")[0][0]
    told = [kind for of, kind in rows(database, EVENTS_OF_RUNS) if of == run_id]
    assert told == ["recovery.started", "recovery.progress", "recovery.completed"]
    assert app.recover().run_id == run_id + 1


@pytest.mark.proves("REC-09")
def test_where_the_lock_failed_a_run_refuses_to_take_the_number_of_anothers(
    make_app: Make, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    lose(app, database, 2)
    content_before = content(database)
    monkeypatch.setattr(run_rows, "next_id", lambda tx: 1)
    with pytest.raises(StoreBusy, match="another process has begun to recover"):
        app.recover()
    assert content(database) == content_before


@pytest.mark.proves("REC-20")
@pytest.mark.parametrize("way", ["called", "opened"])
def test_a_second_run_leaves_every_row_as_it_is(
    make_app: Make, database: Path, way: str, clock: ManualClock
) -> None:
    app = make_app(recovery_action_by_kind={"hopeless": "fail", "care": "none"})
    app.enqueue("hopeless", id="hopeless")
    app.enqueue("care", id="care")
    ids = app.enqueue_many("work", range(3))
    app.close()
    assert crash(database) == ["hopeless", "care", *ids]
    app.open()
    once = content(database)
    recovery_runs = rows(database, "SELECT count(*) FROM recovery_runs")[0][0]
    for _ in range(2):
        clock.advance("1s")
        if way == "called":
            app.recover()
        else:
            app.close()
            app.open()
    assert content(database) == once
    later = "SELECT put_back, failed, held, skipped FROM recovery_runs ORDER BY id"
    assert rows(database, later)[recovery_runs:] == [(0, 0, 0, 1)] * 2


@pytest.mark.proves("REC-21")
@pytest.mark.parametrize("batch", [1, 4, 2000])
def test_one_task_in_ten_that_cannot_be_moved_is_listed_and_the_nine_are_recovered(
    make_app: Make, database: Path, batch: int
) -> None:
    app = make_app(heal_batch=batch)
    ids = [f"t{n}" for n in range(9)]
    ids.insert(5, "stubborn")
    app.enqueue_many("work", range(10), id=ids)
    app.close()
    assert crash(database) == ids
    by_hand(database, FROZEN)
    report = app.recover()
    assert (report.tasks_put_back, report.was_successful()) == (9, False)
    (listed,) = report.unrecovered
    assert listed.task_id == "stubborn"
    assert "it is frozen" in listed.error
    assert report.errors == (f"task stubborn: {listed.error}",)
    assert app.counts()["pending"] == 9
    assert app.get("stubborn").status == "running"
    assert len(app.claim("w", limit=20)) == 9, "the rest is served"
    by_hand(database, "DROP TRIGGER frozen")
    assert app.recover().tasks_put_back == 1
