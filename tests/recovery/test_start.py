"""The pass at each start: what it does in which order, and what it tells of the stop before."""

import hashlib
import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast, RecoveryFailed, RecoveryReport
from tests.recovery.stage import crash, rows

STEPS = [
    "unclean shutdown check",
    "log size",
    "integrity",
    "log flush",
    "workers judged",
    "orphans",
    "verification",
    "report",
]


def report_of(app: Outlast) -> RecoveryReport:
    report = app.last_report()
    assert report is not None
    return report


@pytest.mark.proves("REC-01")
def test_the_first_opening_after_a_kill_recovers_and_is_on_record_without_any_call(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    before = rows(crashed, "SELECT count(*) FROM recovery_runs")[0][0]
    app = make_app().open()
    after = "SELECT trigger, put_back, completed_at IS NOT NULL FROM recovery_runs ORDER BY id"
    assert rows(crashed, after)[before:] == [("opening", 2, 1)]
    assert {app.get(one).status for one in ("a", "b")} == {"pending"}
    app.close()
    app.open()
    assert rows(crashed, after)[before + 1 :] == [("opening", 0, 1)]


@pytest.mark.proves("REC-03")
def test_the_eight_steps_are_on_record_in_their_order(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    report = report_of(make_app().open())
    assert [step.name for step in report.steps] == STEPS
    outcomes = {step.name: step.outcome for step in report.steps}
    assert outcomes["unclean shutdown check"].startswith("unclean, pid ")
    assert outcomes["log size"] == f"{report.wal_bytes} bytes"
    assert (report.wal_bytes or 0) > 0
    assert outcomes["log flush"] == f"{report.wal_frames_moved} frames moved"
    assert (report.wal_frames_moved or 0) > 0
    assert outcomes["integrity"] == outcomes["verification"] == "PASSED"
    assert outcomes["workers judged"] == "1 dead, 0 stale"
    assert outcomes["orphans"] == "2 put back, 0 failed, 0 held, 0 skipped"


@pytest.mark.proves("REC-03")
def test_what_each_step_does_is_done_in_that_order(
    make_app: Callable[..., Outlast], crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.store.ops.recovery import orphan_batches, orphans, run_rows
    from outlast.store.sqlite import engine, open

    done: list[str] = []

    def watch(module: Any, name: str) -> None:
        genuine = getattr(module, name)

        def watched(*given: Any, **named: Any) -> Any:
            done.append(name)
            return genuine(*given, **named)

        monkeypatch.setattr(module, name, watched)

    watch(open, "how_it_was_left")
    watch(open, "_size_of_log")
    watch(open, "check_after_bad_stop")
    watch(open, "flush")
    watch(orphans, "judge")
    watch(orphan_batches, "move_alike")
    watch(engine, "check")
    watch(run_rows, "end")
    make_app().open()
    once = list(dict.fromkeys(done))
    assert once == [
        "how_it_was_left", "_size_of_log", "check_after_bad_stop", "flush", "judge",
        "move_alike", "check", "end",
    ]  # fmt: skip


@pytest.mark.proves("REC-03")
def test_a_damaged_file_stops_the_start_before_anything_in_it_was_changed(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    _plant_a_dangling_row(crashed)
    before = _fingerprint(crashed)
    app = make_app()
    for _ in range(2):
        with pytest.raises(RecoveryFailed, match=r"is damaged .*nothing in it was changed"):
            app.enqueue("work")
    assert _fingerprint(crashed) == before
    assert rows(crashed, "SELECT DISTINCT status FROM tasks") == [("running",)]


def _plant_a_dangling_row(database: Path) -> None:
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute("INSERT INTO blobs (task_seq, part, data) VALUES (9, 'payload', '')")


def _fingerprint(database: Path) -> dict[str, str]:
    """Content of the file, its log and the session markers; nobody has the store open."""
    files = [database, Path(f"{database}-wal"), *Path(f"{database}-outlast/sessions").iterdir()]
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.exists() and file.stat().st_size
    }


@pytest.mark.proves("REC-04")
def test_it_is_known_and_reported_how_the_session_before_ended(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app().open()
    assert report_of(app).previous == "none"
    app.enqueue("work", id="t")
    app.close()
    app.open()
    assert (report_of(app).previous, report_of(app).crashed_at) == ("clean", None)
    app.close()
    crash(database)
    app.open()
    assert report_of(app).previous == "unclean"
    assert report_of(app).crashed_at is not None
    app.close()
    app.open()
    assert (report_of(app).previous, report_of(app).crashed_at) == ("clean", None)


@pytest.mark.proves("REC-08")
def test_after_a_clean_stop_the_pass_finds_nothing_to_do(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue_many("work", range(5))
    app.claim("w", limit=3)
    app.close()
    report = report_of(app.open())
    assert (report.previous, report.tasks_running_before) == ("clean", 0)
    assert report.tasks_put_back + report.tasks_failed + report.tasks_held == 0
    assert (report.dead_workers, report.was_successful()) == ((), True)
    moved = "SELECT count(*) FROM transitions WHERE run_id IS NOT NULL"
    assert rows(database, moved) == [(0,)]
    assert app.counts()["pending"] == 5


@pytest.mark.proves("REC-31")
def test_the_report_names_each_dead_worker_with_what_it_left(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """The seed moved the orphans first, and then found no worker with any."""
    app = make_app()
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    app.close()
    assert crash(database, "first", 2) == ["a", "b"]
    assert crash(database, "second", 1) == ["c"]
    report = report_of(app.open())
    told = {one.worker: (one.task_ids, one.tasks_put_back) for one in report.dead_workers}
    assert told == {"first": (("a", "b"), 2), "second": (("c",), 1)}
    assert {one.because for one in report.dead_workers} == {"its lock is free"}
    moved = {one.task_id: one.previous_worker for one in app.recovered(report.run_id)}
    assert moved == {"a": "first", "b": "first", "c": "second"}
    dead = "SELECT name FROM workers WHERE state = 'dead' ORDER BY name"
    assert rows(database, dead) == [("first",), ("second",)]


LOOKING: dict[str, Callable[[Outlast], Any]] = {
    "get": lambda app: app.get("a").status,
    "counts": lambda app: app.counts()["running"],
    "recovery_plan": lambda app: [one.reason for one in app.recovery_plan()],
    "recovery_stats": lambda app: app.recovery_stats().entries_reclaimed,
    "recovery_status": lambda app: app.recovery_status().is_due,
    "last_report": lambda app: report_of(app).mode,
}


@pytest.mark.proves("REC-02")
@pytest.mark.parametrize("verb", LOOKING)
def test_a_verb_that_looks_changes_nothing_and_says_that_recovery_is_due(
    make_app: Callable[..., Outlast], crashed: Path, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    answers = {
        "get": "running",
        "counts": 2,
        "recovery_plan": ["crash_retry"] * 2,
        "recovery_stats": 2,
        "recovery_status": True,
        "last_report": "off",
    }
    before = _fingerprint(crashed)
    with caplog.at_level(logging.WARNING, "outlast"):
        assert LOOKING[verb](make_app()) == answers[verb]
    assert _fingerprint(crashed) == before
    assert "recovery is due" in caplog.text
