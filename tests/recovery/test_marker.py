"""The session marker: who serves, and how the one before ended; it informs and never decides."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, RecoveryReport
from outlast.host import processes
from outlast.store.sqlite.side_folder.session_marker import Session
from outlast.testing import ManualClock
from tests.recovery.stage import FROZEN, by_hand, crash, holder, rows, sessions_of
from tests.support.children import Child


def report_of(app: Outlast) -> RecoveryReport:
    report = app.last_report()
    assert report is not None
    return report


def said_in(marker: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(marker.read_bytes())
    return said


@pytest.mark.proves("REC-05")
def test_a_marker_says_who_serves_since_when_and_the_database_says_the_same(
    app: Outlast, database: Path
) -> None:
    app.open()
    (marker,) = sessions_of(database)
    here = processes.this_process()
    said = said_in(marker)
    assert said == {
        "incarnation": marker.stem,
        "started_at": 1_800_000_000_000,
        "pid": os.getpid(),
        "pid_started": here.started,
        "host": here.host,
        "boot_id": here.boot_id,
        "pid_namespace": here.pid_namespace,
    }
    mirror = "SELECT incarnation, started_at, pid, host, boot_id FROM recovery_runs"
    names = ("incarnation", "started_at", "pid", "host", "boot_id")
    assert rows(database, mirror) == [tuple(said[name] for name in names)]


@pytest.mark.proves("REC-05")
def test_it_is_read_back_as_what_is_known_of_the_crash(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    make_app().open().close()
    with holder(database) as child:
        child.hear()
        (marker,) = sessions_of(database)
        started_at = said_in(marker)["started_at"]
        child.kill()
    report = report_of(make_app().open())
    assert report.steps[0].outcome == f"unclean, pid {child.pid}"
    assert report.crashed_at is not None
    assert report.crashed_at.timestamp() * 1000 == started_at


def _lives_for_a_while(path: str, sign: str) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    clock = ManualClock()
    app = Outlast(path, settings=Settings(detection_interval_seconds=0), clock=clock)
    (lease,) = app.claim("victim", lease="1h")
    clock.advance("10m")
    if sign == "beat":
        app.heartbeat("victim")
    else:
        lease.renew()
    say()
    hear()


@pytest.mark.proves("RPT-06")
@pytest.mark.parametrize("sign", ["beat", "lease"])
def test_the_crashed_was_last_seen_at_its_last_sign_of_life_and_not_at_its_start(
    make_app: Callable[..., Outlast], database: Path, clock: ManualClock, sign: str
) -> None:
    """One time everywhere: the session's end, the worker's last heartbeat, and the audit."""
    app = make_app()
    app.enqueue("work")
    app.close()
    with Child(_lives_for_a_while, database, sign) as child:
        child.hear()
        child.kill()
    clock.advance("11m")
    report = report_of(app.open())
    (dead,) = report.dead_workers
    assert report.crashed_at == dead.last_beat_at
    assert (report.started_at - dead.last_beat_at).total_seconds() == 60
    shown = str(app.recovery_report())
    assert "Previous Session: crashed, last seen alive 2027-01-15T08:10:00Z" in shown
    assert "victim (last heartbeat: 1m ago)" in shown


@pytest.mark.proves("REC-05")
def test_markers_lie_in_the_workspace_if_there_is_one(
    make_app: Callable[..., Outlast], database: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "space"
    app = make_app(workspace=workspace).open()
    (marker,) = workspace.glob("*/sessions/*.session")
    assert said_in(marker)["pid"] == os.getpid()
    assert sessions_of(database) == []
    app.close()
    assert list(workspace.glob("*/sessions/*")) == []


@pytest.mark.proves("REC-06")
def test_a_graceful_stop_takes_the_own_marker_away_and_no_other(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app().open()
    (ours,) = sessions_of(database)
    with holder(database) as child:
        child.hear()
        (theirs,) = set(sessions_of(database)) - {ours}
        child.say("leave")
        assert child.wait() == 0
        assert sessions_of(database) == [ours]
        assert not theirs.exists()
    with holder(database) as child:
        child.hear()
        (theirs,) = set(sessions_of(database)) - {ours}
        app.close()
        assert sessions_of(database) == [theirs]
        child.kill()
    assert sessions_of(database) == [theirs]


@pytest.mark.proves("REC-06")
def test_a_recovery_with_errors_keeps_the_marker_and_one_without_takes_it_away(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue("work", id="stubborn")
    app.close()
    crash(database)
    (left,) = sessions_of(database)
    by_hand(database, FROZEN)
    assert not report_of(app.open()).was_successful()
    assert left in sessions_of(database)
    app.close()
    assert sessions_of(database) == [left]
    assert report_of(app.open()).previous == "unclean"
    app.close()
    by_hand(database, "DROP TRIGGER frozen")
    assert report_of(app.open()).was_successful()
    assert left not in sessions_of(database)


@pytest.mark.proves("REC-06")
def test_a_start_with_recovery_switched_off_has_not_recovered_and_keeps_it(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    make_app().open().close()
    crash(database)
    left = sessions_of(database)
    assert len(left) == 1
    make_app(recovery_mode="off").open().close()
    assert sessions_of(database) == left
    make_app().open().close()
    assert sessions_of(database) == []


GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "torn": b'{"incarnation": "x", "started_at": 18000',
    "no text": b"\xff\xfe\x00\x80" * 40,
    "a list": b"[1, 2]",
    "a number": b"7",
    "no object of ours": b'{"hello": "world"}',
    "wrong types": json.dumps(dict.fromkeys(Session._fields, "x")).encode(),
    "nested deeply": b"[" * 4000,
    "endless": b"a" * 1_000_000,
}


@pytest.mark.proves("REC-07")
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_the_marker_blocks_no_start_and_suppresses_no_recovery(
    make_app: Callable[..., Outlast], database: Path, garbage: str
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    (left,) = sessions_of(database)
    left.write_bytes(GARBAGE[garbage])
    report = report_of(app.open())
    assert (report.previous, report.tasks_put_back) == ("unclean", 1)
    told = report.steps[0].outcome
    assert told.startswith("unclean, pid ")
    assert told.endswith(", 1 markers unreadable")
    assert not left.exists()


@pytest.mark.proves("REC-07")
def test_a_missing_marker_suppresses_no_recovery(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    for marker in sessions_of(database):
        marker.unlink()
    report = report_of(app.open())
    assert (report.previous, report.tasks_put_back) == ("unclean", 1)
    assert report.steps[0].outcome.startswith("unclean, pid "), "the file knows who it was"
    assert report.integrity.passed


ELSEWHERE = {
    "another host": {"host": "elsewhere", "boot_id": "other"},
    "another container of this host": {"pid_namespace": "pid:[1]"},
}


@pytest.mark.proves("REC-07")
@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_crash_elsewhere_is_a_crash_to_whoever_has_the_store_to_itself(
    make_app: Callable[..., Outlast], database: Path, where: str
) -> None:
    """A container that is started again sees no process of the one that crashed."""
    app = make_app().open()
    (ours,) = sessions_of(database)
    foreign = ours.with_stem("f" * 32)
    foreign.write_text(json.dumps(said_in(ours) | {"incarnation": foreign.stem} | ELSEWHERE[where]))
    app.close()
    report = report_of(app.open())
    assert (report.previous, report.was_successful()) == ("unclean", True)
    assert not foreign.exists()


@pytest.mark.proves("REC-07")
@pytest.mark.parametrize("where", ELSEWHERE)
def test_while_others_use_the_store_a_marker_from_elsewhere_is_left_alone(
    make_app: Callable[..., Outlast], database: Path, where: str
) -> None:
    """Nobody can tell from here whether its process lives."""
    make_app().open()
    (ours,) = sessions_of(database)
    foreign = ours.with_stem("f" * 32)
    foreign.write_text(json.dumps(said_in(ours) | {"incarnation": foreign.stem} | ELSEWHERE[where]))
    with Child(_opens_and_tells, database) as child:
        assert child.hear() == ["in use", []]
    assert foreign.exists()


def _opens_and_tells(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import say

    with Outlast(path) as app:
        report = app.last_report()
        assert report is not None
        say([report.previous, list(report.errors)])


@pytest.mark.proves("REC-07")
@pytest.mark.parametrize("in_the_way", ["a folder for the marker", "a file for the folder"])
def test_a_marker_that_cannot_be_written_or_read_blocks_no_start(
    make_app: Callable[..., Outlast], database: Path, in_the_way: str
) -> None:
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    (left,) = sessions_of(database)
    left.unlink()
    if in_the_way == "a folder for the marker":
        left.mkdir()
    else:
        left.parent.rmdir()
        left.parent.write_text("no folder")
    assert report_of(app.open()).tasks_put_back == 1


@pytest.mark.proves("REC-07")
def test_a_marker_is_synced_before_it_has_its_name_and_its_name_is_synced_after(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.rename

    def is_ours(name: str) -> bool:
        return "sessions" in name

    def syncing(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if is_ours(name):
            done.append(f"sync {Path(name).suffix or 'folder'}")
        fsync(descriptor)

    def renaming(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        file = Path(os.readlink(f"/proc/self/fd/{src_dir_fd}"), old)
        if is_ours(str(file)):
            assert said_in(file)["pid"] == os.getpid(), "it is whole when it gets its name"
            done.append(f"rename {file.suffix} {Path(new).suffix}")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "rename", renaming)
    app.open()
    assert done[-3:] == ["sync .new", "rename .new .session", "sync folder"]


@pytest.mark.proves("REC-07")
def test_a_process_killed_before_it_has_set_its_marker_is_recovered_from_all_the_same(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """The marker is set before the first task can be taken, and still nothing depends on it."""
    app = make_app()
    app.enqueue("work", id="t")
    app.close()
    with holder(database) as child:
        child.hear()
        for marker in sessions_of(database):
            marker.rename(marker.with_suffix(".new"))
        child.kill()
    assert report_of(app.open()).tasks_put_back == 1
