"""Every named point of the flow, and a real SIGKILL at each of its passings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast_lab.kill.cases import Room
from outlast_lab.kill.sweep import name_of, points_of
from outlast_lab.kill.writes import HALF, WHOLE
from outlast_lab.lives import LIVES, MIGRATING
from outlast_lab.operating_lives import OPERATING_LIVES
from outlast_lab.recovery_lives import RECOVERY_LIVES
from tests.support.kill_room import a_room, assert_sound, tried

MIGRATIONS = ["migrate", "migrate on"]
IN_WRITES = "finish and flush"
SWEEP = [
    (life, probe)
    for life in sorted(LIVES)
    if life not in (*MIGRATIONS, IN_WRITES)
    for probe in points_of(life)
]
RECOVERING = [(life, probe) for life in RECOVERY_LIVES for probe in points_of(life)]
OPERATING = [(life, probe) for life in OPERATING_LIVES for probe in points_of(life)]
BETWEEN_BATCHES = ("heal.written", "heal.committed")


@pytest.fixture(scope="module")
def room(shared_path: Path) -> Iterator[Room]:
    with a_room(shared_path) as made:
        yield made


def _sweep(room: Room, life: str, probe: str) -> int:
    """Kill at each passing of a probe; how many there were."""
    passings = room.rehearsed(life).passed.count(probe)
    assert passings, "a probe that is listed must be reached"
    for nth in range(1, passings + 1):
        assert_sound(room, name_of(life, probe, nth))
    return passings


@pytest.mark.proves("QUE-01", "QUE-16", "QUE-21", "OBS-06", "TST-13", "TST-14", "TST-15", "TST-39")
@pytest.mark.parametrize(("life", "probe"), SWEEP, ids=[f"{one}-{two}" for one, two in SWEEP])
def test_a_kill_at_a_probe_leaves_exactly_what_was_committed(
    room: Room, life: str, probe: str
) -> None:
    """Before the commit all is as it was, after it all is new, and the next opening goes on."""
    _sweep(room, life, probe)


@pytest.mark.proves("QUE-21", "INT-29", "TST-15")
@pytest.mark.parametrize("point", [HALF, WHOLE])
def test_a_kill_in_the_middle_of_a_commit_or_a_flush_leaves_the_old_or_the_new(
    room: Room, point: str
) -> None:
    """At each single write to log and database, done by half or done, one transaction is whole."""
    passings = _sweep(room, IN_WRITES, point)
    assert passings > 20, "a commit and a flush write that much"
    rehearsal = room.rehearsed(IN_WRITES)
    commits = len(rehearsal.states) - 1
    at = {rehearsal.commits_before(point, nth) for nth in range(1, passings + 1)}
    assert at >= {commits - 1, commits}, "some writes are the commit's, and some the flush's"


@pytest.mark.proves("MIG-04", "TST-20")
@pytest.mark.parametrize("life", MIGRATIONS)
@pytest.mark.parametrize("probe", sorted(MIGRATING))
def test_a_migration_that_was_killed_is_completed_by_the_next_opening(
    room: Room, life: str, probe: str
) -> None:
    """After each statement: the old version or the new one, never a part of one."""
    _sweep(room, life, probe)


@pytest.mark.proves("REC-30", "REC-20", "REC-29", "REC-28")
@pytest.mark.parametrize("probe", points_of("start"))
def test_recovery_that_was_killed_once_or_twice_ends_as_if_nobody_had_been(
    room: Room, probe: str
) -> None:
    """Around each batch, and at the first and last passing of all other points.

    The session markers may have become anything in between.
    """
    passings = room.rehearsed("start").passed.count(probe)
    assert passings, "a probe that is listed must be reached"
    chosen = range(1, passings + 1) if probe in BETWEEN_BATCHES else {1, passings}
    for nth in chosen:
        assert_sound(room, name_of("start", probe, nth))


def test_some_recoveries_are_killed_twice_in_a_row(room: Room) -> None:
    cases = (name_of("start", "heal.committed", nth) for nth in range(1, 6))
    assert any(tried(room, case).kills == 2 for case in cases)


@pytest.mark.proves("REC-28")
@pytest.mark.parametrize(
    ("life", "probe"), [one for one in RECOVERING if one[0] != "start"], ids=str
)
def test_mending_and_approving_are_whole_transactions_wherever_they_are_killed(
    room: Room, life: str, probe: str
) -> None:
    """By the detector, by hand, by force, by a second run; `lab kill` sweeps every passing."""
    passings = room.rehearsed(life).passed.count(probe)
    assert passings, "a probe that is listed must be reached"
    assert_sound(room, name_of(life, probe, (passings + 1) // 2))


@pytest.mark.parametrize(("life", "probe"), OPERATING, ids=str)
def test_an_operators_act_and_its_entry_in_the_audit_are_one_wherever_they_are_killed(
    room: Room, life: str, probe: str
) -> None:
    """After each commit nothing is without its entry; `lab kill` sweeps every passing."""
    passings = room.rehearsed(life).passed.count(probe)
    assert passings, "a probe that is listed must be reached"
    is_told_apart = probe.endswith(".committed")
    chosen = {1, passings} if is_told_apart else {(passings + 1) // 2}
    for nth in sorted(chosen):
        assert_sound(room, name_of(life, probe, nth))
