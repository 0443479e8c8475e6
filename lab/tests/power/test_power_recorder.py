"""The recorder misses nothing: strace sees the same calls, and two runs give the same recording."""

import subprocess
from pathlib import Path

import pytest

from outlast_lab.experiments.power.calibration import (
    calibrate,
    compare,
    program,
    since_the_life_began,
)
from outlast_lab.experiments.power.driving import DATABASE, PLACE
from outlast_lab.experiments.power.own_scenarios import ALL_LIVES
from outlast_lab.experiments.power.recording import CREATE, FOLDER, SYNC, TOLD, WRITE, Recording


@pytest.mark.parametrize("life", ALL_LIVES)
def test_the_recorder_saw_what_the_kernel_saw(tmp_path: Path, life: str) -> None:
    """Also when SQLite syncs the folder, which no method of its file system tells."""
    calibration = calibrate(tmp_path.resolve() / "here", life)
    assert calibration.note == "", "strace is needed here"
    assert calibration.differences == []
    assert calibration.compared > 50


def test_a_folder_with_an_odd_name_is_calibrated_too(tmp_path: Path) -> None:
    calibration = calibrate(tmp_path.resolve() / 'ü "x" <y> 7%?', "migrate")
    assert (calibration.note, calibration.differences) == ("", [])
    assert calibration.compared > 50


def test_a_trace_that_does_not_show_the_life_is_no_crash() -> None:
    assert since_the_life_began(['1 openat(3, "elsewhere") = 4'], Path("/here/events")) == []


def test_a_recorder_that_missed_a_sync_would_be_found_out(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "here"
    calibrate(folder, "migrate")
    recording = Recording.load(folder / "life")
    lines = (folder / "trace").read_text().splitlines()
    lines = since_the_life_began(lines, folder / "life" / "events")
    database = folder.joinpath("life", *PLACE, DATABASE)
    assert compare(recording, lines, database).differences == []
    for kind in (SYNC, FOLDER, WRITE, CREATE):
        last = max(n for n, event in enumerate(recording.events) if event.kind == kind)
        events = recording.events[:last] + recording.events[last + 1 :]
        missed = Recording(recording.database, recording.base, recording.before, events)
        assert compare(missed, lines, database).differences != []


@pytest.mark.parametrize("life", sorted(set(ALL_LIVES) - {"in groups"}))
def test_two_runs_of_a_life_write_the_same_places(tmp_path: Path, life: str) -> None:
    """So that the text of a case means the same image tomorrow."""
    shapes = []
    for name in ("once", "twice"):
        place = tmp_path.resolve() / name
        subprocess.run(program(life, place), check=True, timeout=100)
        events = Recording.load(place).events
        shapes.append([(one.kind, one.file, one.at, len(one.data)) for one in events])
    assert shapes[0] == shapes[1]


def test_a_new_log_is_synced_together_with_its_name(tmp_path: Path) -> None:
    """The folder is synced at the first sync of a new WAL, before anything is acknowledged."""
    calibrate(tmp_path.resolve() / "here", "migrate")
    events = Recording.load(tmp_path / "here" / "life").events
    kinds = [(one.kind, one.file) for one in events]
    made = kinds.index((CREATE, f"{DATABASE}-wal"))
    synced = kinds.index((SYNC, f"{DATABASE}-wal"), made)
    assert kinds[synced + 1] == (FOLDER, "")
    acknowledged = [n for n, one in enumerate(events) if one.kind == TOLD and one.line][1]
    assert synced < acknowledged
