"""Runs of recovery that were stopped: closed with the error, and with what they did until then."""

import json
from pathlib import Path

import pytest

from outlast import DatabaseError, Outlast
from outlast.store.ops.recovery.healer import Healer
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.recovery.stage import rows
from tests.report.stage import Make, lost, report_of


class GivenUp(Exception):
    """Somebody does not want to wait for the end."""


def _last_run(database: Path) -> tuple[object, ...]:
    (row,) = rows(
        database,
        "SELECT completed_at IS NOT NULL, put_back, details FROM recovery_runs"
        " ORDER BY id DESC LIMIT 1",
    )
    return tuple(row)


@pytest.mark.proves("RPT-01", "OBS-01", "OBS-08")
@pytest.mark.parametrize("way", ["opening", "called"])
def test_a_run_that_its_caller_stops_is_closed_with_the_error_and_what_it_did(
    make_app: Make, database: Path, clock: ManualClock, way: str
) -> None:
    app = make_app(heal_batch=2)
    app.enqueue_many("work", range(5))
    app.close()
    if way == "called":
        app = make_app(heal_batch=2, heal_at_claim=False).open()
    lost(database, "w", clock, "default")

    def give_up(batch: object) -> None:
        raise GivenUp("enough")

    with pytest.raises(GivenUp):
        app.recover(on_batch=give_up)
    is_closed, put_back, details = _last_run(database)
    assert (is_closed, put_back) == (1, 2)
    assert json.loads(str(details))["errors"] == ["the run was stopped: GivenUp: enough"]
    looking = make_app()
    found = report_of(looking)
    assert not found.was_successful
    assert found.steps[-1].name == "stopped"
    assert len(found.recovered_tasks) == found.jobs_recovered == 2
    events = [one.kind for one in looking.events(kinds="recovery.*")][-3:]
    assert events == ["recovery.started", "recovery.progress", "recovery.completed"]
    audit = "SELECT status, run_id FROM audit WHERE source = 'crash_recovery' ORDER BY id DESC"
    assert rows(database, audit)[0] == ("failed", found.run_id)
    looking.close()
    again = app.recover()
    assert (again.tasks_put_back, again.was_successful()) == (3, True)


@pytest.mark.proves("RPT-01")
def test_a_worker_whose_last_batch_was_heard_by_one_who_raised_is_among_the_dead(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue("work", id="t")
    app.close()
    lost(database, "w", clock, "default")

    def give_up(batch: object) -> None:
        raise GivenUp

    with pytest.raises(GivenUp):
        app.recover(on_batch=give_up)
    found = report_of(app)
    assert [(one.worker, one.tasks) for one in found.dead_workers] == [("w", ("t",))]
    assert found.errors == ("the run was stopped: GivenUp",)


@pytest.mark.proves("RPT-01")
def test_a_run_that_the_database_stops_is_closed_and_raises_the_same_error(
    app: Outlast, database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work", id="t")
    app.open()

    def broken(self: Healer, *rest: object) -> None:
        raise DatabaseError("the disk said no", OSError())

    with monkeypatch.context() as patch:
        patch.setattr(Healer, "_heal", broken)
        with pytest.raises(DatabaseError, match="the disk said no"):
            app.recover()
    (error,) = report_of(app).errors
    assert error.startswith("the run was stopped: DatabaseError: the disk said no")
    assert app.recover().was_successful()


@pytest.mark.proves("RPT-01")
def test_a_run_that_is_stopped_after_its_orphans_were_moved_has_them_on_record(
    app: Outlast, database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work", id="t")
    app.close()
    lost(database, "w", clock, "default")

    def interrupted(self: Store, is_quick: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "check", interrupted)
        with pytest.raises(KeyboardInterrupt):
            app.open()
    found = report_of(app)
    assert found.errors == ("the run was stopped: KeyboardInterrupt",)
    assert (found.jobs_recovered, found.jobs_reset_to_pending) == (1, 1)
    assert [(one.worker, one.tasks) for one in found.dead_workers] == [("w", ("t",))]


@pytest.mark.proves("RPT-01")
def test_when_nothing_can_be_written_the_first_error_is_the_one_that_is_raised(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app.open()

    def full(self: object, *rest: object, **more: object) -> None:
        raise DatabaseError("database or disk is full", OSError())

    def stop(self: Healer, *rest: object) -> None:
        raise DatabaseError("the first", OSError())

    with monkeypatch.context() as patch:
        patch.setattr(Healer, "_heal", stop)
        patch.setattr(RecoveryRuns, "end", full)
        with pytest.raises(DatabaseError, match="the first"):
            app.recover()
    assert "could not be put on record: database or disk is full" in caplog.text
