"""The kill experiment takes care: of its evidence, of its processes, and of those of others."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast_lab.experiment import Plan
from outlast_lab.experiments.kill import judging, run, sweep, workers
from outlast_lab.experiments.kill.stage import Stage
from outlast_lab.judge.foreign_reader import Stored, foreign_stored
from outlast_lab.record.grouping import await_that
from outlast_lab.stage.process_table import has_ended
from tests.support.kill_room import a_room


def test_evidence_is_as_the_dead_left_it_with_what_they_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery comes after it was copied, or nobody could look into what it was."""

    def complaining(database: Path, found: Stored, clock: object) -> list[str]:
        return [*judging.troubles_of_going_on(database, found), "it is planted"]

    monkeypatch.setattr(sweep, "troubles_of_going_on", complaining)
    plan = Plan(tmp_path, case="probe claim/claim.committed#1", keep=tmp_path / "kept")
    (finding,) = run(plan).violations
    assert finding.evidence is not None
    (kept,) = finding.evidence.glob("*/work.db")
    assert "running" in foreign_stored(kept).statuses().values()
    assert kept.with_name("history.jsonl").stat().st_size
    assert kept.with_name("work.db-outlast").is_dir()


def test_no_folder_is_left_of_a_case_that_was_interrupted(tmp_path: Path) -> None:
    def interrupted() -> None:
        with a_room(tmp_path) as room, room.fresh("random producer 1") as database:
            database.touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "cases").iterdir()) == []


def test_an_interrupted_stage_ends_at_once_with_the_actor_it_waits_for(tmp_path: Path) -> None:
    stage = Stage()
    database, record = str(tmp_path / "work.db"), str(tmp_path / "a.jsonl")
    stage.server.tell("victim producer", database, record, 0.5)
    _, (_, pid) = stage.server.hear()
    stage.close(at_once=True)
    await_that(lambda: has_ended(pid))
    assert has_ended(pid)


def looks(monkeypatch: pytest.MonkeyPatch, *seen: list[int]) -> None:
    """What each look into /proc shows; the last of them again and again."""
    left = list(seen)

    def look(database: Path) -> Iterator[int]:
        return iter(left.pop(0) if len(left) > 1 else left[0])

    monkeypatch.setattr(workers, "_left_behind", look)


def test_a_process_that_a_first_look_missed_and_that_ends_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks(monkeypatch, [7], [], [8], [8], [])
    assert workers.await_end_of_all(Path("work.db")) == []


def test_a_process_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.1)
    looks(monkeypatch, [7], [], [8])
    assert workers.await_end_of_all(Path("work.db")) == ["process 8 outlives its worker"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing for long."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def gone() -> int:
    """The number of a process that has ended and was waited for."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_who_is_gone_already_is_passed_over_for_the_next(
    sleeper: subprocess.Popen[bytes],
) -> None:
    found = [gone(), sleeper.pid, sleeper.pid]
    assert workers.kill_that(lambda: found.pop(0), 0.0)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_number_that_is_another_process_by_now_is_left_alone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PATIENCE_SECONDS", 0.1)
    found = [sleeper.pid]
    assert not workers.kill_that(lambda: found.pop(0) if found else None, 0.0)
    assert sleeper.poll() is None
    os.kill(sleeper.pid, 0)
