"""Sessions that never ended, as the file itself tells of them: no marker is needed for it."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast, RecoveryFailed, RecoveryReport
from outlast.store.ops.recovery import run_rows
from outlast.store.ops.recovery.recovery import Recovery
from outlast.store.records import SESSIONS_FROM
from tests.recovery.stage import by_hand, content, crash, holder, rows, sessions_of
from tests.support.children import Child


def report_of(app: Outlast) -> RecoveryReport:
    report = app.last_report()
    assert report is not None
    return report


def lose_the_markers(database: Path) -> None:
    for marker in sessions_of(database):
        marker.unlink()


def found_by(app: Outlast) -> tuple[str, str]:
    """What an opening said of the session before, and whether it checked the file."""
    report = report_of(app.open())
    app.close()
    return report.previous, report.integrity.verdict


CLEAN, UNCLEAN = ("clean", "SKIPPED"), ("unclean", "PASSED")


@pytest.mark.proves("REC-03", "REC-07")
def test_a_damaged_file_is_refused_though_the_marker_of_the_crash_is_lost(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    """Guards the check after a crash: whether it is made is not for the marker to decide."""
    lose_the_markers(crashed)
    with closing(apsw.Connection(str(crashed))) as connection:
        connection.execute("INSERT INTO blobs (task_seq, part, data) VALUES (9, 'payload', '')")
    before = content(crashed)
    with pytest.raises(RecoveryFailed, match=r"is damaged .*nothing in it was changed"):
        make_app().open()
    assert content(crashed) == before


@pytest.mark.proves("REC-04", "REC-07")
def test_a_copy_of_a_crashed_store_without_its_side_folder_tells_of_the_crash(
    make_app: Callable[..., Outlast], crashed: Path, tmp_path: Path
) -> None:
    """Guards who copies file and log only, and has no marker to go by."""
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{crashed}{suffix}", f"{copy}{suffix}")
    assert found_by(Outlast(copy)) == UNCLEAN
    assert found_by(Outlast(copy)) == CLEAN


@pytest.mark.proves("REC-04", "REC-08")
def test_a_crash_is_told_of_once_and_a_clean_stop_never(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    """Guards the cost of a start: a crash that was recovered from makes no later check."""
    lose_the_markers(crashed)
    assert found_by(make_app()) == UNCLEAN
    for _ in range(2):
        assert found_by(make_app()) == CLEAN


def test_a_copy_of_a_store_that_was_closed_is_clean(
    app: Outlast, database: Path, tmp_path: Path
) -> None:
    """Guards who copies a store at rest from a check that nothing calls for."""
    app.enqueue("work")
    app.recover()
    app.close()
    shutil.copy(database, tmp_path / "copy.db")
    assert found_by(Outlast(tmp_path / "copy.db")) == CLEAN


def test_who_only_looks_leaves_no_session_behind(
    app: Outlast, make_app: Callable[..., Outlast], database: Path
) -> None:
    """Guards lookers: they serve nothing, and so their end says nothing."""
    app.enqueue("work")
    app.close()
    with Child(_looks_and_is_killed, database) as child:
        assert child.hear() == 1
        child.kill()
    assert found_by(make_app()) == CLEAN


def _looks_and_is_killed(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    say(len(Outlast(path).tasks()))
    hear()


def test_rows_of_older_versions_say_nothing(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    """Guards an upgrade: they never ended the session of a crash that was recovered from."""
    lose_the_markers(crashed)
    by_hand(crashed, "DELETE FROM meta WHERE key = ?", SESSIONS_FROM)
    assert found_by(make_app()) == CLEAN
    assert rows(crashed, "SELECT DISTINCT status FROM tasks") == [("pending",)], "and yet recovered"
    crash(crashed)
    lose_the_markers(crashed)
    assert found_by(make_app()) == UNCLEAN


def test_a_run_that_is_no_opening_is_no_session(
    app: Outlast, make_app: Callable[..., Outlast], database: Path
) -> None:
    """Guards who calls for recovery by and by: each of these runs is over when it ends."""
    app.open()
    for _ in range(3):
        app.recover()
    assert rows(database, "SELECT count(*) FROM recovery_runs WHERE session_ended_at IS NULL") == [
        (1,)
    ]
    app.close()
    assert found_by(make_app()) == CLEAN


def test_an_opening_that_was_broken_off_and_made_again_is_one_session(
    make_app: Callable[..., Outlast], crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the retry: what was begun twice is ended by one clean stop."""
    heal = Recovery.heal

    def breaks_off(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    class Twice:
        """The recovery of an impatient user."""

        def __call__(self, session: Any) -> None:
            from outlast import usual_recovery

            with monkeypatch.context() as broken:
                broken.setattr(Recovery, "heal", breaks_off)
                with pytest.raises(KeyboardInterrupt):
                    usual_recovery(session)
            assert Recovery.heal is heal
            usual_recovery(session)

    with Outlast(crashed, recovery=Twice()) as app:
        assert app.counts()["pending"] == 2
    assert found_by(make_app()) == CLEAN


@pytest.mark.proves("REC-04")
def test_the_session_of_one_who_serves_for_long_is_not_forgotten(
    make_app: Callable[..., Outlast], database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards a server beside a job that opens the store every minute, a thousand times over."""
    monkeypatch.setattr(run_rows, "RUNS_KEPT", 3)
    monkeypatch.setattr(run_rows, "TELLING_RUNS_KEPT", 1)
    make_app().open().close()
    with holder(database) as server:
        server.hear()
        for _ in range(6):
            make_app().open().close()
        kept = rows(database, "SELECT pid FROM recovery_runs ORDER BY id")
        assert (server.pid,) in kept
        assert len(kept) == 4, "the others are forgotten as ever"
        server.kill()
    lose_the_markers(database)
    assert found_by(make_app()) == UNCLEAN


def test_one_who_joins_and_recovers_from_a_crash_has_dealt_with_it(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    """Guards a restart after a worker's death that its successor saw to, beside a server."""
    app = make_app().open()
    app.enqueue("work", id="t")
    crash(database)
    with Child(_opens_and_closes, database) as successor:
        assert successor.hear() == ["in use", 1]
        assert successor.wait() == 0
    app.close()
    assert sessions_of(database) == []
    assert found_by(make_app()) == CLEAN


def _opens_and_closes(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import say

    with Outlast(path) as app:
        report = app.last_report()
        assert report is not None
        say([report.previous, report.tasks_put_back])


def test_sessions_of_other_hosts_are_theirs_where_the_lock_may_not_reach(
    make_app: Callable[..., Outlast], crashed: Path
) -> None:
    """Guards a shared filesystem: whether another host's process lives cannot be told from here."""
    lose_the_markers(crashed)
    by_hand(crashed, "UPDATE recovery_runs SET host = 'elsewhere' WHERE session_ended_at IS NULL")
    assert found_by(make_app(allow_network_filesystem=True)) == CLEAN
    assert found_by(make_app()) == UNCLEAN
