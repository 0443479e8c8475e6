"""Every named point of the flow, and a real SIGKILL at each of its passings."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast
from tests.crash.aftermath import assert_it_goes_on
from tests.crash.lives import LIVES, MIGRATING
from tests.crash.stage import Rehearsal, Stage
from tests.support.snapshots import State, foreign_snapshot
from tests.support.syscalls import HALF, WHOLE

MIGRATIONS = ["migrate", "migrate on"]
SWEEP = [
    (life, probe)
    for life in sorted(LIVES)
    if life not in MIGRATIONS
    for probe in sorted(LIVES[life].probes)
]


@pytest.mark.proves("QUE-01", "QUE-16", "QUE-21")
@pytest.mark.parametrize(("life", "probe"), SWEEP, ids=[f"{one}-{two}" for one, two in SWEEP])
def test_a_kill_at_a_probe_leaves_exactly_what_was_committed(
    stage: Stage,
    rehearsed: Callable[[str], Rehearsal],
    tmp_path: Path,
    life: str,
    probe: str,
) -> None:
    """Before the commit all is as it was, after it all is new, and the next opening goes on."""
    rehearsal = rehearsed(life)
    assert probe in rehearsal.passed, "a probe that is listed must be reached"
    for nth in range(1, rehearsal.passed.count(probe) + 1):
        database = tmp_path / f"{nth}.db"
        death = stage.kill(life, database, probe, nth)
        assert death.signal == signal.SIGKILL
        found = foreign_snapshot(database)
        assert found.state == rehearsal.state_when_killed_at(probe, nth)
        assert found.faults == {}
        assert not set(death.stored) - set(found.statuses)
        assert not set(death.ended.items()) - set(found.statuses.items())
        assert_it_goes_on(database, found)


@pytest.mark.proves("QUE-21")
@pytest.mark.parametrize("point", [HALF, WHOLE])
def test_a_kill_in_the_middle_of_a_commit_or_a_flush_leaves_the_old_or_the_new(
    stage: Stage, rehearsed: Callable[[str], Rehearsal], tmp_path: Path, point: str
) -> None:
    """At each single write to log and database, done by half or done, one transaction is whole."""
    rehearsal = rehearsed("finish and flush")
    assert rehearsal.passed.count(point) > 20, "a commit and a flush write that much"
    outcomes = set()
    for nth in range(1, rehearsal.passed.count(point) + 1):
        database = tmp_path / f"{nth}.db"
        death = stage.kill("finish and flush", database, point, nth)
        found = foreign_snapshot(database)
        before = rehearsal.commits_before(point, nth)
        outcome = rehearsal.states[before : before + 2].index(found.state)
        outcomes.add((before, outcome))
        assert found.faults == {}
        assert not set(death.ended.items()) - set(found.statuses.items())
        if point == HALF:
            assert_it_goes_on(database, found)
    commits = len(rehearsal.states) - 1
    assert outcomes >= {(commits - 1, 0), (commits, 0)}


@pytest.mark.proves("MIG-04")
@pytest.mark.parametrize("life", MIGRATIONS)
@pytest.mark.parametrize("probe", sorted(MIGRATING))
def test_a_migration_that_was_killed_is_completed_by_the_next_opening(
    stage: Stage,
    rehearsed: Callable[[str], Rehearsal],
    tmp_path: Path,
    life: str,
    probe: str,
) -> None:
    """After each statement: the old version or the new one, never a part of one."""
    rehearsal = rehearsed(life)
    assert probe in rehearsal.passed, "a probe that is listed must be reached"
    for nth in range(1, rehearsal.passed.count(probe) + 1):
        database = tmp_path / f"{nth}.db"
        death = stage.kill(life, database, probe, nth)
        assert death.signal == signal.SIGKILL
        found = foreign_snapshot(database)
        assert found.state == rehearsal.state_when_killed_at(probe, nth)
        assert found.faults == {}
        _assert_the_next_opening_completes(database, rehearsal.states[-1])


def _assert_the_next_opening_completes(database: Path, whole: State) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="after")
        (lease,) = app.claim("next")
        assert lease.complete()
    after = foreign_snapshot(database)
    assert after.faults == {}
    assert after.statuses == {"after": "completed"}
    assert after.state["schema"] == whole["schema"]
    assert after.state["migrations"] == whole["migrations"]
