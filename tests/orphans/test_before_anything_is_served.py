"""What comes between a crash and the first answer: soundness, one's turn, and recovery."""

import fcntl
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, RecoveryFailed, Settings, StoreBusy
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.store import SqliteStore
from outlast.testing import ManualClock
from tests.orphans.left_behind import holding, killed, markers_of
from tests.store.hand import Hand
from tests.support.foreign import foreign_rows

PATIENCE_SECONDS = 60


def crashed_store(app: Outlast, database: Path, tasks: int = 3) -> None:
    """A store whose only user was killed with all its tasks."""
    app.enqueue_many("work", range(tasks), id=[f"t{n}" for n in range(tasks)])
    killed(database)
    app.close()


def sums_of(database: Path) -> str:
    """Checksums of the file and of its log, made by another process: our locks depend on that."""
    names = [database, database.with_name(f"{database.name}-wal")]
    done = subprocess.run(["sha256sum", *names], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_second_recovery_waits_for_the_first_and_names_it(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app(open_timeout_seconds=0.2)
    crashed_store(app, database)
    turn = os.open(SideFolder(database).recovery, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match=f"being recovered by process {os.getpid()}"):
            app.claim("w")
    finally:
        os.close(turn)
    assert len(app.claim("w", limit=9)) == 3


def test_a_turn_that_cannot_be_had_is_told_in_our_words(app: Outlast, database: Path) -> None:
    """Whatever is wrong with the side folder, callers meet no error that is not ours."""
    crashed_store(app, database)
    place = SideFolder(database).recovery
    place.unlink()
    place.mkdir()
    with pytest.raises(RecoveryFailed, match=f"{place.name}.*see to the disk"):
        app.claim("w")
    place.rmdir()
    assert len(app.claim("w", limit=9)) == 3


def test_a_damaged_file_is_refused_before_a_byte_of_it_is_changed(
    app: Outlast, database: Path
) -> None:
    crashed_store(app, database)
    (root,) = foreign_rows(database, "SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'")
    (size,) = foreign_rows(database, "PRAGMA page_size")
    killed_again(database)
    with database.open("r+b") as file:
        file.seek((root[0] - 1) * size[0])
        file.write(b"\xff" * size[0])
    before = sums_of(database)
    with pytest.raises(RecoveryFailed, match="nothing in it was changed"):
        app.claim("w")
    assert sums_of(database) == before


def killed_again(database: Path) -> None:
    """Who looked at the file has flushed its log; one that is killed leaves a new one."""
    with holding(database, "again"):
        pass


def test_no_call_of_any_thread_is_answered_before_recovery_has_ended(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed_store(app, database)
    inside, go_on = threading.Event(), threading.Event()
    seen: list[tuple[str, int]] = []
    heal = SqliteStore.heal

    def slowly(store: SqliteStore, *given: Any, **options: Any) -> Any:
        inside.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return heal(store, *given, **options)

    def ask(name: str, call: Callable[[], Any]) -> threading.Thread:
        def answered() -> None:
            call()
            running = foreign_rows(
                database, "SELECT count(*) FROM tasks WHERE worker_id = 'victim'"
            )
            seen.append((name, running[0][0]))

        thread = threading.Thread(target=answered, daemon=True)
        thread.start()
        return thread

    monkeypatch.setattr(SqliteStore, "heal", slowly)
    threads = [ask("claim", lambda: app.claim("w"))]
    assert inside.wait(PATIENCE_SECONDS)
    threads.append(ask("enqueue", lambda: app.enqueue("work")))
    threads[1].join(0.3)
    assert seen == []
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted(seen) == [("claim", 0), ("enqueue", 0)]


def test_without_its_marker_a_crash_is_recovered_from_all_the_same(
    app: Outlast, database: Path
) -> None:
    crashed_store(app, database)
    for marker in markers_of(database):
        marker.unlink()
    report = app.recover()
    assert (report.previous, report.tasks_put_back) == ("unclean", 3)


def test_a_clean_stop_takes_away_its_own_marker_and_no_other(app: Outlast, database: Path) -> None:
    app.open()
    (own,) = markers_of(database)
    with holding(database) as other:
        app.close()
        left = markers_of(database)
        assert (len(left), own in left) == (1, False)
        other.say()
        assert other.hear() == "closed"
        assert markers_of(database) == []


@pytest.mark.proves("REC-12")
def test_exclusive_use_needs_proof_that_nobody_else_is_there(
    make_app: Callable[..., Outlast], database: Path, clock: ManualClock
) -> None:
    app = make_app(exclusive=True)
    with Outlast(database, clock=clock) as maker:
        maker.enqueue("work", id="t")
    with holding(database) as other:
        with pytest.raises(StoreBusy, match=str(other.pid)):
            app.recover()
        assert foreign_rows(database, "SELECT status FROM tasks") == [["running"]]
    assert app.recover().tasks_put_back == 1


@pytest.mark.proves("REC-12")
def test_who_has_the_store_to_itself_waits_for_nobodys_silence(
    make_app: Callable[..., Outlast], database: Path, clock: ManualClock
) -> None:
    """Its holder cannot be asked, and would be waited for by anybody else."""
    with Outlast(database, clock=clock) as maker:
        maker.enqueue("work", id="t")
    killed(database)
    hand = Hand(database)
    hand.run("UPDATE workers SET lock_file = 'gone.lock', boot_id = 'elsewhere'")
    hand.close()
    with Outlast(database, clock=clock) as shared:
        assert shared.recover().tasks_put_back == 0
    assert make_app(exclusive=True).recover().tasks_put_back == 1


@pytest.mark.proves("HEAL-15")
def test_a_plan_and_a_dry_run_change_nothing_and_say_what_will_be_done(
    database: Path, clock: ManualClock
) -> None:
    settings = Settings(recovery_action_by_kind={"fragile": "fail", "precious": "none"})
    with Outlast(database, clock=clock, settings=settings) as maker:
        for kind in ("work", "work", "fragile", "precious"):
            maker.enqueue(kind)
    killed(database)
    before = sums_of(database)
    looking = Outlast(database, clock=clock, settings=settings)
    planned = {(one.task_id, one.to) for one in looking.recovery_plan()}
    dry = looking.recovery_stats()
    assert sums_of(database) == before
    done = looking.heal()
    assert planned == {(one.id, one.status) for one in looking.tasks()}
    looking.close()
    assert (dry.entries_reclaimed, dry.entries_failed) == (2, 1)
    assert (done.entries_reclaimed, done.entries_failed) == (2, 1)
    assert (dry.dead_workers, done.dead_workers) == (("victim",), ("victim",))
