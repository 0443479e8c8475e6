"""futurnal's crash tests, by its names: what each was meant to show, shown by the laboratory.

Its simulators sent signals to the test itself, ignored their parameters, and closed the database
before they called it a power loss. Here every crash is one: a child process that is killed, too
little memory, or a disk that is rebuilt as a power cut would leave it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast_lab.experiment import Plan
from outlast_lab.experiments.kill.cases import Room
from outlast_lab.experiments.kill.sweep import name_of
from outlast_lab.experiments.kill.writes import HALF
from outlast_lab.experiments.power.running import Run
from outlast_lab.record.scenarios import LIVES
from tests.support.kill_room import a_room, assert_sound, assert_sound_until_killed, tried

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with a_room(tmp_path_factory.mktemp("futurnal"), seed=7) as made:
        yield made


def _swept(room: Room, life: str, *probes: str) -> None:
    """A kill at the first and at the last passing of each probe."""
    for probe in probes:
        passings = room.rehearsed(life).passed.count(probe)
        for nth in sorted({1, passings}):
            assert_sound(room, name_of(life, probe, nth))


@pytest.mark.proves("TST-09")
def test_sigkill_recovery(room: Room) -> None:
    """All ids are present: of producers and of workers, killed at random moments."""
    for case in ("random producer 1", "random worker by hand 1", "random recovery 1"):
        assert_sound(room, case)


@pytest.mark.proves("TST-13")
def test_crash_during_job_enqueue(room: Room) -> None:
    """The row is whole or absent."""
    _swept(room, "enqueue", *sorted(LIVES["enqueue"].probes))


@pytest.mark.proves("TST-14", "QUE-21")
def test_crash_during_status_update(room: Room) -> None:
    """The old state or the new one, with all that belongs to it."""
    _swept(room, "settle", *sorted(LIVES["settle"].probes))


@pytest.mark.proves("TST-15", "INT-29")
def test_crash_during_checkpoint(room: Room) -> None:
    """A flush, which SQLite calls a checkpoint, loses nothing when it is killed inside a write."""
    _swept(room, "keep", "flush.begun", "flush.counted", "flush.done")
    rehearsal = room.rehearsed("finish and flush")
    inside = rehearsal.passed.count(HALF)
    for nth in range(inside - 8, inside + 1):
        assert_sound(room, name_of("finish and flush", HALF, nth))
    assert_sound(room, "random flush 1")


@pytest.mark.proves("TST-20", "MIG-04")
def test_schema_migration_crash(room: Room) -> None:
    """The old version or the new one."""
    _swept(room, "migrate on", "migrate.statement", "migrate.written", "migrate.committed")
    assert_sound(room, "random opening 1")
    assert_sound_until_killed(room, "random command store migrate")


@pytest.mark.proves("TST-12")
def test_oom_kill_recovery(room: Room) -> None:
    """Killed for its memory, and refused memory: recovered either way."""
    assert_sound(room, "memory killed 1")
    starved = tried(room, "memory engine settle/700 KiB")
    assert starved.troubles == []
    assert starved.refused, "or the limit was not met"


@pytest.mark.proves("TST-10")
def test_power_loss_recovery(tmp_path: Path) -> None:
    """The disks that a power cut may leave, rebuilt from what was written and what was synced."""
    plan = Plan(tmp_path.resolve(), seed=7, cases=200)
    found = Run(plan, ["finish and flush"], controls=()).all()
    assert found.violations == []
    assert found.cases >= 200
