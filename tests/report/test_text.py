"""The report as text: in the sample's layout, frozen at the run's own times."""

import json
import re
from pathlib import Path

import pytest

from outlast import IntegrityResult, Outlast, RecoveryReport, Verdict
from outlast.domain.recovery_report import document
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.report.stage import Make, crashed_store

GOLDEN = Path(__file__).with_name("golden")


def as_golden(said: str, app: Outlast) -> str:
    """What differs from run to run taken out: the file, its log, and pids."""
    said = said.replace(str(app.path), "work.db")
    return re.sub(r"pid \d+", "pid N", re.sub(r"\d+ frames", "N frames", said))


def shown(app: Outlast) -> str:
    found = app.recovery_report()
    assert found is not None
    return as_golden(str(found), app)


@pytest.mark.proves("RPT-09", "RPT-11")
def test_the_text_of_a_run_with_all_there_is_to_tell(make_app: Make, clock: ManualClock) -> None:
    """A line for each orphan with the attempt about to be made, or the true cause of its end."""
    app = crashed_store(make_app, clock)
    app.recover()
    assert shown(app) == GOLDEN.joinpath("everything.txt").read_text()


@pytest.mark.proves("RPT-09")
def test_the_text_of_a_run_whose_tasks_wait_for_approval(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock, recovery_mode="manual")
    app.recover()
    assert shown(app) == GOLDEN.joinpath("held.txt").read_text()


@pytest.mark.proves("RPT-11")
def test_each_orphan_shows_its_attempt_over_the_limit_or_why_it_failed(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock)
    app.recover()
    orphans = shown(app).partition("Dead Workers")[0]
    lines = dict(re.findall(r"^  - (\S+): (.*)$", orphans, re.MULTILINE))
    assert lines["task-two"] == "retry (attempt 2/3)"
    assert lines["task-three"] == "retry (attempt 3/3)"
    assert lines["task-policy"] == "failed (by policy)"
    assert lines["stubborn"].startswith("NOT RECOVERED (")
    assert lines["task-spent"] == "failed (max attempts exceeded)"


@pytest.mark.proves("RPT-13")
def test_the_text_is_the_same_an_hour_later_and_says_utc(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock)
    app.recover()
    first = str(app.recovery_report())
    clock.advance("1h")
    assert str(app.recovery_report()) == first
    assert "worker-001 (last heartbeat: 1m 30s ago)" in first
    assert "worker-002 (last heartbeat: 1m ago)" in first
    for heading in ("Started", "Recovery Complete"):
        (said,) = re.findall(rf"^{heading}: (.*)$", first, re.MULTILINE)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", said)


@pytest.mark.proves("RPT-10", "CLI-02", "RPT-14")
def test_another_process_prints_the_same_report_after_a_restart(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock)
    app.recover()
    text, found = str(app.recovery_report()), app.recovery_report()
    app.close()
    done = piped(app.path.parent, "queue", "recovery-report", "--store", app.path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == text.splitlines()
    as_json = piped(app.path.parent, "queue", "recovery-report", "--json", "--store", app.path)
    data = json.loads(as_json.stdout)
    assert found is not None
    assert data["run_id"] == found.run_id
    assert [one["task_id"] for one in data["recovered_tasks"]] == [
        one.task_id for one in found.recovered_tasks
    ]


def verdict_line(report: RecoveryReport, **changes: object) -> str:
    from dataclasses import replace

    told = document(replace(report, **changes), [])  # type: ignore[arg-type]
    return next(line for line in str(told).splitlines() if line.startswith("Integrity"))


@pytest.mark.proves("RPT-12")
@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_has_its_own_word(app: Outlast, verdict: Verdict) -> None:
    """A repaired file is not shown as one that simply passed."""
    app.open()
    report = app.last_report()
    assert report is not None
    found = IntegrityResult(verdict, repair_attempted=verdict is Verdict.REPAIRED)
    assert verdict_line(report, integrity=found) == f"Integrity Check: {verdict.name}"
    because = IntegrityResult(Verdict.SKIPPED, reason="the store is in use")
    assert verdict_line(report, integrity=because) == (
        "Integrity Check: SKIPPED (the store is in use)"
    )
    assert [word.value for word in Verdict] == ["PASSED", "REPAIRED", "FAILED", "SKIPPED"]


@pytest.mark.proves("OBS-19")
def test_what_is_orphaned_again_and_again_has_its_own_section_with_a_likely_cause(
    make_app: Make, clock: ManualClock
) -> None:
    app = crashed_store(make_app, clock)
    app.recover()
    found = app.recovery_report()
    assert found is not None
    suspects = {one.task_id: one.recoveries for one in found.repeatedly_orphaned}
    assert suspects == {"task-spent": 3, "task-three": 2}
    text = str(found)
    section = text[text.index("Repeatedly Orphaned: 2") :]
    assert "task-spent: 3 times; it ends the process that runs it (3 times)" in section
    for one in found.repeatedly_orphaned:
        assert f"  - {one.task_id}: {one.recoveries} times; {one.likely_cause}" in section
    assert all("ends the process that runs it" in one.likely_cause or "beside" in one.likely_cause
               for one in found.repeatedly_orphaned)  # fmt: skip
