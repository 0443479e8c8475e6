"""How recovery stands: during a run and after it, in the log, and by the commands."""

import json
import logging
from pathlib import Path

import pytest

from outlast import Outlast, RecoveryStats
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.operating.stage import holds
from tests.recovery.stage import crash
from tests.report.stage import Make, crashed_store, lost
from tests.support.children import Child


@pytest.mark.proves("OBS-17", "CLI-01")
def test_the_status_is_told_before_during_and_after_a_run(
    make_app: Make, database: Path, clock: ManualClock
) -> None:
    app = make_app(heal_batch=1)
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.close()
    lost(database, "gone", clock, "default")
    looking = make_app()
    before = looking.recovery_status()
    assert (before.mode, before.is_due, before.is_running) == ("auto", True, False)
    assert before.dead_workers == ("gone",)
    during = []

    def look(batch: object) -> None:
        during.append(looking.recovery_status())

    report = app.recover(on_batch=look)
    assert [one.is_running for one in during] == [True, True, True]
    after = looking.recovery_status()
    assert (after.is_due, after.is_running) == (False, False)
    assert after.last == report
    assert after.is_degraded is False
    looking.close()
    told = json.loads(
        piped(database.parent, "queue", "recovery-status", "--json", "--store", database).stdout
    )
    assert (told["mode"], told["is_running"], told["is_degraded"]) == ("auto", False, False)
    assert told["last"]["run_id"] == report.run_id
    shown = piped(database.parent, "queue", "recovery-status", "--store", database)
    assert "Recovery is auto; orphans are treated by retry." in shown.stdout
    assert f"Run {report.run_id}: 3 tasks put back" in shown.stdout


@pytest.mark.proves("OBS-17")
def test_recovery_is_degraded_when_it_is_off_or_its_last_run_met_errors(
    make_app: Make, clock: ManualClock
) -> None:
    assert make_app(recovery_enabled=False).open().recovery_status().is_degraded
    app = crashed_store(make_app, clock)
    app.recover()
    assert app.recovery_status().is_degraded
    shown = piped(app.path.parent, "queue", "recovery-status", "--store", app.path)
    assert "DEGRADED" in shown.stdout


@pytest.mark.proves("OBS-07")
def test_every_action_of_a_recovery_has_a_line_in_the_log(
    make_app: Make, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = crashed_store(make_app, clock)
    caplog.clear()
    caplog.set_level(logging.DEBUG, "outlast")
    app.recover()
    lines = [one.getMessage() for one in caplog.records]
    found = app.recovery_report()
    assert found is not None
    for task in found.recovered_tasks:
        about = [one for one in lines if f"task {task.task_id} " in one]
        assert [one for one in about if task.reason in one], about
    assert [one for one in lines if one.startswith("task stubborn cannot be taken back")]
    assert [one for one in lines if "task task-care " in one and "leaves kind care alone" in one]
    for dead in found.dead_workers:
        assert [one for one in lines if one.startswith(f"worker {dead.worker} (pid ")]
    assert [one for one in lines if one.startswith("recovered 2 tasks, failed 2, of 2 dead")]


@pytest.mark.proves("CLI-03")
def test_workers_are_listed_with_the_age_of_their_beats(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="t1")
    with Child(holds, database, "w1") as child:
        assert child.hear() == ["t1"]
        words = ("worker", "list", "--show-heartbeat", "--store", str(database))
        shown = piped(database.parent, *words)
        data = json.loads(piped(database.parent, *words, "--json").stdout)
    assert "SILENT" in shown.stdout.splitlines()[0]
    (row,) = [line for line in shown.stdout.splitlines() if line.startswith("w1 ")]
    assert str(child.pid) in row
    (one,) = data
    assert (one["name"], one["pid"], one["task_ids"]) == ("w1", child.pid, ["t1"])
    assert one["silent_seconds"] >= 0
    assert one["beat_at"].endswith("Z")


@pytest.mark.proves("RPT-15")
def test_a_pass_of_healing_returns_what_it_did_and_a_dry_run_says_that_it_did_nothing(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(3))
    app.claim("slow", limit=2, lease="10s")
    app.lock("merge", ttl=10).acquire()
    clock.advance("1m")
    dry = app.recovery_stats()
    assert dry.is_dry_run
    assert app.counts()["running"] == 2
    done = app.heal()
    assert isinstance(done, RecoveryStats)
    assert not done.is_dry_run
    assert (done.entries_reclaimed, done.locks_cleaned) == (2, 1)
    assert (dry.entries_reclaimed, dry.locks_cleaned) == (2, 1)
    assert int(done.recovery_timestamp.timestamp() * 1000) == clock.now().utc_ms
    again = app.heal()
    assert (again.entries_reclaimed, again.locks_cleaned) == (0, 0)


@pytest.mark.proves("RPT-15")
def test_the_dry_run_says_would_be_on_the_command_line(app: Outlast, database: Path) -> None:
    app.enqueue_many("work", range(2))
    app.close()
    crash(database)
    dry = piped(database.parent, "queue", "heal", "--dry-run", "--store", database)
    assert "2 tasks would be put back" in dry.stdout
    done = piped(database.parent, "queue", "heal", "--store", database)
    assert "2 tasks were put back" in done.stdout
