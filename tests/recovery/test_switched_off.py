"""Recovery switched off, by a setting or the environment: orphans stay, and it is said loudly."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, Settings
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.recovery.stage import crash, rows

SWITCHES: dict[str, dict[str, object]] = {
    "mode": {"recovery_mode": "off"},
    "enabled": {"recovery_enabled": False},
}


@pytest.fixture
def crashed(app: Outlast, database: Path) -> Path:
    """A store with one orphan."""
    app.enqueue("work", id="t")
    app.close()
    assert crash(database) == ["t"]
    return database


@pytest.mark.proves("REC-25")
@pytest.mark.parametrize("switch", SWITCHES)
def test_orphans_stay_at_start_and_at_claims_and_the_log_says_so(
    make_app: Callable[..., Outlast],
    crashed: Path,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    switch: str,
) -> None:
    app = make_app(**SWITCHES[switch])
    with caplog.at_level(logging.WARNING, "outlast"):
        app.open()
    assert f"recovery is switched off for {crashed}" in caplog.text
    clock.advance("1h")
    assert app.claim("w") == []
    assert app.get("t").status == "running"
    status, report = app.recovery_status(), app.last_report()
    assert (status.mode, status.is_due) == ("off", True)
    assert report is not None
    outcomes = {step.name: step.outcome for step in report.steps}
    assert outcomes["orphans"] == outcomes["workers judged"] == "recovery is switched off"
    assert (report.mode, report.tasks_put_back) == ("off", 0)
    app.close()
    make_app().open()
    assert app.get("t").status == "pending", "what stayed is recovered once it is on again"


@pytest.mark.proves("REC-25", "CFG-03")
@pytest.mark.parametrize("text", ["false", "0", "no", "off", "OFF"])
def test_the_environment_switches_it_off_for_an_object_without_settings(
    crashed: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("OUTLAST_RECOVERY_ENABLED", text)
    with Outlast(crashed, clock=clock) as app:
        assert app.get("t").status == "running"
        assert app.recovery_status().mode == "off"
    monkeypatch.setenv("OUTLAST_RECOVERY_ENABLED", "true")
    with Outlast(crashed, clock=clock) as app:
        assert app.get("t").status == "pending"


@pytest.mark.proves("CFG-03")
def test_the_variable_wins_over_a_file_and_an_argument_over_both(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[queue.recovery]\nenabled = true\n")
    off = {"OUTLAST_RECOVERY_ENABLED": "false"}
    assert Settings.load(file, {}).recovers
    assert not Settings.load(file, off).recovers
    assert Settings.load(file, off, recovery_enabled=True).recovers


@pytest.mark.proves("REC-25", "CFG-03")
def test_the_status_on_the_command_line_says_it_in_capitals(crashed: Path, tmp_path: Path) -> None:
    words = ("--store", crashed, "queue", "recovery-status")
    done = piped(tmp_path, *words, OUTLAST_RECOVERY_ENABLED="false")
    assert done.returncode == 0, done.stderr
    assert "RECOVERY IS SWITCHED OFF: tasks of dead workers stay as they are." in done.stdout
    assert "SWITCHED OFF" in piped(tmp_path, *words).stdout, "the program has it off"
    told_otherwise = piped(tmp_path, *words, OUTLAST_RECOVERY_ENABLED="true")
    assert "SWITCHED OFF" not in told_otherwise.stdout
    assert rows(crashed, "SELECT status FROM tasks") == [("running",)]


def test_who_looks_is_told_that_nothing_will_be_done_about_it(
    make_app: Callable[..., Outlast], crashed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "outlast"):
        make_app(recovery_mode="off").counts()
    said = "holds tasks whose holders are gone: recovery is switched off, and they stay"
    assert said in caplog.text
