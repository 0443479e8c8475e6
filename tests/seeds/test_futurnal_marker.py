"""futurnal's test_recovery_marker: the session marker is set, read, cleared; torn and foreign ones.

The seed's marker decided whether there was anything to recover, and a torn one stopped the start.
Here it informs the report, and decides nothing.
"""

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.seeds.crashing import claims_and_waits, copy_of, crash, facts, markers
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.recovery_validator import validated

pytestmark = pytest.mark.slow

CRASHED_AT_MS = 1_900_000_000_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose process was killed with two jobs in hand; only to be copied."""
    database = tmp_path_factory.mktemp("crashed") / "work.db"
    with Outlast(database) as app:
        app.enqueue_many("job", range(2), id=["a", "b"])
    assert crash(database, limit=2) == ["a", "b"]
    return database


@pytest.fixture
def crashed(template: Path, tmp_path: Path) -> Path:
    return copy_of(template, tmp_path)


def session_step(app: Outlast) -> str:
    """What the record of the last run says of the session before."""
    report = app.last_report()
    assert report is not None
    return report.steps[0].outcome


@pytest.mark.proves("TST-05")
def test_recovery_marker_is_set_at_start_and_tells_who_serves_since_when(
    app: Outlast, clock: ManualClock
) -> None:
    """RST-1, RST-2, ORC-3: a file in the workspace, mirrored in the store."""
    app.open()
    (marker,) = markers(app.path)
    told = json.loads(marker.read_text())
    assert (told["pid"], told["started_at"]) == (os.getpid(), clock.now().utc_ms)
    assert told["host"]
    assert told["boot_id"]
    mirrored = "SELECT incarnation, pid, started_at, session_ended_at FROM recovery_runs"
    assert facts(app.path, mirrored) == [
        [told["incarnation"], told["pid"], told["started_at"], None]
    ]


@pytest.mark.proves("TST-05")
def test_recovery_marker_is_read_as_crash_information_by_the_next_start(
    database: Path, clock: ManualClock
) -> None:
    """RST-3, RST-4: whether, when and whose process crashed; the time is no start time."""
    with Outlast(database, clock=clock) as app:
        app.enqueue("job", id="a")
    with Child(claims_and_waits, database, "w", 1, [CRASHED_AT_MS, 0]) as child:
        assert child.hear() == ["a"]
        child.kill()
        (marker,) = markers(database)
        os.utime(marker, (1, 1))
        with validated(database), Outlast(database, clock=clock) as app:
            report = app.last_report()
            assert report is not None
            assert report.previous == "unclean"
            assert f"pid {child.pid}" in session_step(app)
            assert report.crashed_at is not None
            assert report.crashed_at.timestamp() * 1000 >= CRASHED_AT_MS


@pytest.mark.proves("TST-05")
def test_recovery_marker_is_cleared_by_a_clean_stop_and_only_the_own_one(database: Path) -> None:
    """RST-5, ORC-4; in the seed the first to stop cleared the other's."""
    with Outlast(database) as app:
        app.enqueue("job", id="theirs")
    with Child(claims_and_waits, database, "neighbour", 1) as neighbour:
        assert neighbour.hear() == ["theirs"]
        (theirs,) = markers(database)
        with Outlast(database) as app:
            assert len(markers(database)) == 2
            report = app.last_report()
            assert report is not None
            assert report.previous == "in use", "a living neighbour's marker is no crash"
        assert markers(database) == [theirs]
        neighbour.kill()
    with validated(database), Outlast(database) as app:
        assert session_step(app).startswith("unclean")
    assert markers(database) == []
    with Outlast(database) as app:
        assert session_step(app) == "clean"


@pytest.mark.proves("TST-05")
def test_recovery_marker_is_cleared_by_a_recovery_without_errors_and_by_no_other(
    crashed: Path,
) -> None:
    """RST-5; the seed cleared it even when errors were found."""
    (marker,) = markers(crashed)
    with closing(Hand(crashed)) as hand:
        hand.run(
            "CREATE TRIGGER stubborn BEFORE UPDATE ON tasks WHEN old.id = 'a'"
            " BEGIN SELECT RAISE(ABORT, 'it will not move'); END"
        )
    with Outlast(crashed) as app:
        report = app.last_report()
        assert report is not None
        assert [one.task_id for one in report.unrecovered] == ["a"]
        assert not report.was_successful()
        assert app.get("b").status == "pending", "one that cannot be recovered stops no other"
    assert markers(crashed) == [marker]
    with closing(Hand(crashed)) as hand:
        hand.run("DROP TRIGGER stubborn")
    with validated(crashed), Outlast(crashed) as app:
        assert app.get("a").status == "pending"
    assert markers(crashed) == []


def _torn(marker: Path) -> None:
    marker.write_bytes(marker.read_bytes()[:20])


def _empty(marker: Path) -> None:
    marker.write_bytes(b"")


def _garbage(marker: Path) -> None:
    marker.write_bytes(os.urandom(3000))


def _of_wrong_types(marker: Path) -> None:
    marker.write_text(json.dumps({key: [] for key in json.loads(marker.read_text())}))


def _a_folder(marker: Path) -> None:
    marker.unlink()
    marker.mkdir()


@pytest.mark.proves("TST-05")
@pytest.mark.parametrize("spoil", [_torn, _empty, _garbage, _of_wrong_types, _a_folder])
def test_recovery_marker_that_nobody_can_read_is_reported_and_stops_nothing(
    crashed: Path, spoil: Callable[[Path], None]
) -> None:
    """The seed's start raised a JSONDecodeError."""
    (marker,) = markers(crashed)
    spoil(marker)
    with validated(crashed), Outlast(crashed) as app:
        told = session_step(app)
        assert told.startswith("unclean, pid "), "the file knows who it was"
        assert told.endswith(", 1 markers unreadable")
        assert app.counts()["pending"] == 2


def _of_another_host(told: dict[str, Any]) -> None:
    told |= {"host": "elsewhere", "boot_id": "another"}


def _of_another_pid_namespace(told: dict[str, Any]) -> None:
    told |= {"pid_namespace": "pid:[1]"}


@pytest.mark.proves("TST-05")
@pytest.mark.parametrize("change", [_of_another_host, _of_another_pid_namespace])
def test_recovery_marker_of_a_foreign_process_tells_of_a_crash_and_suppresses_nothing(
    crashed: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    (marker,) = markers(crashed)
    told = json.loads(marker.read_text())
    change(told)
    marker.write_text(json.dumps(told))
    with validated(crashed), Outlast(crashed) as app:
        assert session_step(app).startswith("unclean")
        assert app.counts()["pending"] == 2
    assert markers(crashed) == []


@pytest.mark.proves("TST-05")
def test_recovery_marker_that_is_lost_hides_no_crash(crashed: Path) -> None:
    """Where the marker is gone, the file itself still tells of the session that never ended."""
    (marker,) = markers(crashed)
    marker.unlink()
    with validated(crashed) as before, Outlast(crashed) as app:
        assert before.stuck == {"a", "b"}
        assert session_step(app).startswith("unclean, pid "), "the marker informs"
        assert app.counts()["pending"] == 2, "and decides nothing"
