"""Locks, logs and journal mode under attack from this process, from a child, and from a looker."""

import errno
import signal
from pathlib import Path

import apsw
import pytest

from outlast import OutcomeUnknown, Outlast, StoreReplaced
from tests.support.children import Child
from tests.support.foreign import ForeignError, assert_sound, foreign_rows, foreign_statuses


def _forks_a_child_that_opens_its_own(path: str) -> None:
    import os

    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="parents")
    if os.fork() == 0:
        app.enqueue("work", id="childs")
        say(os.getpid())
        while True:
            say(app.enqueue("work", id=hear()).id)
    hear()


def test_a_forked_childs_store_is_locked_by_the_child(database: Path) -> None:
    """SQLite keeps its locks in memory that a fork copies: the child would take none of its own."""
    with Child(_forks_a_child_that_opens_its_own, database) as parent:
        orphan = parent.hear()
        try:
            parent.signal(signal.SIGKILL)
            parent.wait()
            with pytest.raises(ForeignError, match="locked"):
                foreign_rows(database, "PRAGMA journal_mode = DELETE")
            assert foreign_rows(database, "PRAGMA journal_mode") == [["wal"]]
        finally:
            import os

            os.kill(orphan, signal.SIGKILL)


def _forks_in_the_thick_of_it(path: str) -> None:
    import os
    import threading

    from outlast import Outlast
    from tests.support.childside import say

    app = Outlast(path).open()
    stop = threading.Event()

    def enqueue() -> None:
        while not stop.is_set():
            app.enqueue("work", "x" * 1000)

    threads = [threading.Thread(target=enqueue) for _ in range(2)]
    for thread in threads:
        thread.start()
    for n in range(10):
        pid = os.fork()
        if pid == 0:
            app.enqueue("work", id=f"child-{n}")
            app.counts()
            os._exit(0)
        say(os.waitpid(pid, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()


def _forks_while_a_thread_imports(path: str) -> None:
    import os
    import sys
    import threading

    from outlast import Outlast, Settings
    from tests.support.childside import say

    importing, has_forked = threading.Event(), threading.Event()

    class Slow:
        """Holds up whatever a thread of the library imports until the fork is over."""

        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if threading.current_thread() is not threading.main_thread():
                importing.set()
                has_forked.wait()

    sys.meta_path.insert(0, Slow)
    app = Outlast(path, settings=Settings(flush_commits=10)).open()

    def write_until_a_flush() -> None:
        for n in range(20):
            app.enqueue("work", id=f"{os.getpid()}-{n}")
        importing.set()

    writer = threading.Thread(target=write_until_a_flush)
    writer.start()
    importing.wait()
    pid = os.fork()
    has_forked.set()
    if pid == 0:
        write_until_a_flush()
        app.close()
        os._exit(0)
    say(pid)
    say(os.waitpid(pid, 0)[1])
    writer.join()


@pytest.mark.timeout(30)
def test_a_child_forked_while_a_thread_is_about_to_flush_can_use_the_store(database: Path) -> None:
    """Guards against imports put off until a thread needs them: a child forked in the middle of
    one waits for its end for ever."""
    with Child(_forks_while_a_thread_imports, database) as child:
        grandchild, *ends = child.hear_all()
        assert ends == [0], child.error()
    assert f"{grandchild}-19" in foreign_statuses(database)


def test_a_child_forked_while_threads_write_can_use_the_store(database: Path) -> None:
    with Child(_forks_in_the_thick_of_it, database) as child:
        assert child.hear_all() == [0] * 10, child.error()
        assert child.wait() == 0
    assert {f"child-{n}" for n in range(10)} <= set(foreign_statuses(database))
    assert_sound(database)


def test_a_store_whose_wal_index_was_unlinked_is_refused(database: Path) -> None:
    """Another process would make a new index, and both would write to the same place in the log."""
    with Outlast(database) as app:
        app.enqueue("work", id="a")
        Path(f"{database}-shm").unlink()
        with Child(_enqueues_one, database) as other:
            assert other.hear() == "other"
        with pytest.raises(StoreReplaced):
            app.enqueue("work", id="b")
    assert set(foreign_statuses(database)) == {"a", "other"}


def _enqueues_one(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import die, say

    say(Outlast(path).enqueue("work", id="other").id)
    die()


@pytest.mark.parametrize("replace", [False, True])
def test_what_was_acknowledged_outlives_its_log(database: Path, replace: bool) -> None:
    """We still have the log open: what it holds is moved into the database before we let go."""
    log = Path(f"{database}-wal")
    with Outlast(database) as app:
        app.enqueue_many("work", range(3), id=["a", "b", "c"])
        log.unlink()
        if replace:
            log.write_bytes(b"")
        with pytest.raises(StoreReplaced):
            app.enqueue("work", id="d")
        app.open()
        assert sorted(task.id for task in app.tasks()) == ["a", "b", "c"]
    assert_sound(database)


@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-shm", "-wal")])
def test_what_was_acknowledged_outlives_log_and_index(database: Path, ends: list[str]) -> None:
    """As `rm work.db-*` does it; whoever holds a lease keeps it."""
    with Outlast(database) as app:
        app.enqueue_many("work", range(3), id=["a", "b", "c"])
        (lease,) = app.claim("w")
        for end in ends:
            Path(f"{database}{end}").unlink()
        with pytest.raises((StoreReplaced, OutcomeUnknown)):
            app.enqueue("work", id="d")
        assert lease.complete("done")
        assert {task.id for task in app.tasks()} >= {"a", "b", "c"}
        assert app.get("a").status == "completed"
    assert_sound(database)


def _enqueues_on_request(path: str, name: str) -> None:
    from outlast import Outlast, OutlastError
    from tests.support.childside import hear, say

    app = Outlast(path).open()
    n = 0
    while hear():
        n += 1
        try:
            say(app.enqueue("work", id=f"{name}{n}").id)
        except OutlastError as error:
            say([type(error).__name__])


def test_what_two_processes_were_told_is_stored_outlives_log_and_index(database: Path) -> None:
    """The first to find out moves what both have written; the other has nothing left to save."""
    told: list[str] = []
    with (
        Child(_enqueues_on_request, database, "x") as one,
        Child(_enqueues_on_request, database, "y") as other,
    ):
        for n in range(12):
            if n == 4:
                for end in ("-wal", "-shm"):
                    Path(f"{database}{end}").unlink()
            for child in (one, other):
                child.say(True)
                answer = child.hear()
                told += [answer] if isinstance(answer, str) else []
        for child in (one, other):
            child.say(False)
            assert child.wait() == 0, child.error()
    assert len(told) >= 8, "those from before"
    assert {"x4", "y4"} <= set(told)
    with Outlast(database) as app:
        assert set(told) <= {task.id for task in app.tasks()}
    assert_sound(database)


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("outlast.store.sqlite.database.ensure_wal", apsw.IOError("disk I/O error")),
        ("outlast.store.sqlite.file_guard.FileGuard.arm", OSError(errno.EMFILE, "too many files")),
    ],
)
def test_where_connecting_anew_fails_too_the_first_error_is_told_and_the_store_can_be_opened(
    database: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    """Guards against bare errors of engine and system, after which it could not be used again."""

    def fails(*given: object, **named: object) -> None:
        raise error

    with Outlast(database) as app:
        app.enqueue("work", id="a")
        Path(f"{database}-wal").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(place, fails)
            with pytest.raises(StoreReplaced):
                app.enqueue("work", id="b")
        app.open().enqueue("work", id="c")
        assert sorted(task.id for task in app.tasks()) == ["a", "c"]
    assert_sound(database)


def _looks_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    say(app.counts())
    hear()


def test_a_journal_mode_is_put_back_although_somebody_looks(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work")
    foreign_rows(database, "PRAGMA journal_mode = DELETE")
    with Child(_looks_and_waits, database) as looking:
        looking.hear()
        with Outlast(database) as app:
            app.enqueue("work")
            assert foreign_rows(database, "PRAGMA journal_mode") == [["wal"]]


def _writes_while_another_thread_uses_sqlite3(path: str, how: str) -> None:  # noqa: C901
    import sqlite3
    import threading
    import time

    from outlast import Outlast, SecondSqliteCopy
    from tests.support.childside import say

    app = Outlast(path).open()
    ends = time.monotonic() + 1.5

    def write(worker: int) -> None:
        while time.monotonic() < ends:
            try:
                say(["stored", app.enqueue("work").id])
            except SecondSqliteCopy:
                say(["refused", "SecondSqliteCopy"])
            except Exception as error:
                say(["disturbed", repr(error)])

    def read() -> None:
        while time.monotonic() < ends:
            try:
                app.counts()
            except Exception as error:
                say(["disturbed", repr(error)])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    while time.monotonic() < ends:
        if how == "open":
            open(path, "rb").close()
        else:
            connection = sqlite3.connect(path)
            connection.execute("SELECT 1 FROM tasks").fetchone()
            connection.close()
        time.sleep(0.02)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("how", ["sqlite3", "open"])
def test_a_second_copy_in_another_thread_costs_nothing_that_was_acknowledged(
    database: Path, how: str
) -> None:
    with Child(_writes_while_another_thread_uses_sqlite3, database, how) as child:
        said = child.hear_all()
        assert child.wait() == 0, child.error()
    acknowledged = {what for kind, what in said if kind == "stored"}
    assert acknowledged
    assert ["refused", "SecondSqliteCopy"] in said
    assert [what for kind, what in said if kind == "disturbed"] == []
    assert set(foreign_statuses(database)) >= acknowledged
    assert_sound(database)
