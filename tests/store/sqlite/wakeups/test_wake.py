"""Hints reach whoever waits, across threads and processes, and never harm the one who sends."""

import mmap
import os
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups import sockets
from outlast.store.sqlite.wakeups.listener import SocketListener
from outlast.store.sqlite.wakeups.notify import Wakeups
from outlast.store.topics import Topic
from tests.store.sqlite.wakeups.waking import DONE, SOON_SECONDS, WORK, make_folder, sockets_in
from tests.support.children import Child


def _tells(path: str) -> None:
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import hear, say

    wakeups = Wakeups(SideFolder(Path(path)))
    while topics := hear():
        wakeups.tell(frozenset(map(Topic, topics)))
        say("told")


def _waits(path: str) -> None:
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import say

    with Wakeups(SideFolder(Path(path))).listener(frozenset({Topic.WORK})) as waiter:
        say("waiting")
        say(waiter.wait(60))


def test_a_hint_from_another_process_ends_a_wait(wakeups: Wakeups, database: Path) -> None:
    with Child(_tells, database) as child, wakeups.listener(WORK) as waiter:
        child.say(["work"])
        assert waiter.wait(SOON_SECONDS)


def test_a_hint_reaches_every_process_that_waits(wakeups: Wakeups, database: Path) -> None:
    with (
        Child(_waits, database) as one,
        Child(_waits, database) as other,
        wakeups.listener(WORK) as here,
    ):
        assert [one.hear(), other.hear()] == ["waiting", "waiting"]
        wakeups.tell(WORK)
        assert [one.hear(), other.hear(), here.wait(0)] == [True, True, True]


def test_one_wait_takes_all_hints_that_have_come(wakeups: Wakeups) -> None:
    with wakeups.listener(WORK) as waiter:
        for _ in range(50):
            wakeups.tell(WORK)
        assert waiter.wait(SOON_SECONDS)
        assert not waiter.wait(0)


@pytest.mark.parametrize(
    ("listens_for", "is_woken_by_work", "is_woken_by_done"),
    [(WORK, True, False), (DONE, False, True), (WORK | DONE, True, True)],
)
def test_a_waiter_hears_of_its_own_topics_alone(
    wakeups: Wakeups,
    listens_for: frozenset[Topic],
    is_woken_by_work: bool,
    is_woken_by_done: bool,
) -> None:
    with wakeups.listener(listens_for) as waiter:
        wakeups.tell(WORK)
        assert waiter.wait(0) is is_woken_by_work
        wakeups.tell(DONE)
        assert waiter.wait(0) is is_woken_by_done
        wakeups.tell(WORK | DONE)
        assert waiter.wait(0)


def _commits(path: str, board: str, rounds: int) -> None:
    import mmap
    import time
    from pathlib import Path

    from outlast.store.sqlite.side_folder.side_folder import SideFolder
    from outlast.store.sqlite.wakeups.notify import Wakeups
    from outlast.store.topics import Topic
    from tests.support.childside import say

    wakeups = Wakeups(SideFolder(Path(path)))
    with open(board, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    say("ready")
    deadline = time.monotonic() + 100
    for number in range(1, rounds + 1):
        while int.from_bytes(shared[:8]) < number:
            assert time.monotonic() < deadline
            wakeups.tell(frozenset({Topic.DONE}))
        shared[8:16] = number.to_bytes(8)
        wakeups.tell(frozenset({Topic.WORK}))


def test_who_listens_before_looking_misses_no_commit(
    wakeups: Wakeups, database: Path, tmp_path: Path
) -> None:
    """A commit comes at any moment around the waiter's making; the committer has just listed."""
    rounds = 200
    board = tmp_path / "board"
    board.write_bytes(bytes(16))
    with Child(_commits, database, board, rounds) as child, open(board, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
        child.hear()
        for number in range(1, rounds + 1):
            shared[:8] = number.to_bytes(8)
            with wakeups.listener(WORK) as waiter:
                # A late hint of the commit before is one too many, and harmless.
                while int.from_bytes(shared[8:16]) < number:
                    assert waiter.wait(SOON_SECONDS), f"round {number}"
                assert int.from_bytes(shared[8:16]) == number
        assert child.wait() == 0


@pytest.mark.parametrize("tick_ns", [10_000_000, 1_000_000_000])
def test_a_socket_made_in_the_tick_of_the_last_listing_is_told(
    wakeups: Wakeups, folder: SideFolder, monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    """File systems differ in how finely they tell time; here the folder's times are coarse."""
    real = os.lstat

    def coarse(path: Any) -> Any:
        found = real(path)
        times = {
            "st_mtime_ns": found.st_mtime_ns // tick_ns * tick_ns,
            "st_ctime_ns": found.st_ctime_ns // tick_ns * tick_ns,
        }
        return SimpleNamespace(st_dev=found.st_dev, st_ino=found.st_ino, **times)

    monkeypatch.setattr(os, "lstat", coarse)
    for _ in range(200):
        wakeups.tell(WORK)
        with wakeups.listener(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)


def test_a_folder_in_which_nobody_waits_is_not_listed_again(
    wakeups: Wakeups, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[list[str]] = []
    real = sockets.WakeFolder.names

    def names(self: sockets.WakeFolder) -> list[str]:
        listings.append(real(self))
        return listings[-1]

    monkeypatch.setattr(sockets.WakeFolder, "names", names)
    deadline = time.monotonic() + SOON_SECONDS
    count = -1
    while count != len(listings):
        assert time.monotonic() < deadline
        count = len(listings)
        wakeups.tell(WORK)
    for _ in range(100):
        wakeups.tell(WORK)
    assert len(listings) == count
    assert count > 0


def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    database = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 8, "work.db")
    assert len(os.fsencode(database)) > 200
    wakeups = Wakeups(make_folder(database))
    with Child(_tells, database) as child, wakeups.listener(WORK) as waiter:
        child.say(["work"])
        assert waiter.wait(SOON_SECONDS)
    wakeups.close()


def test_a_short_path_needs_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "DESCRIPTORS", "/nowhere")
    with tempfile.TemporaryDirectory() as short:
        wakeups = Wakeups(make_folder(Path(short) / "work.db"))
        with wakeups.listener(WORK) as waiter:
            wakeups.tell(WORK)
            assert waiter.wait(0)
        wakeups.close()


def test_a_closed_waiter_leaves_nothing_behind(wakeups: Wakeups, folder: SideFolder) -> None:
    wakeups.listener(WORK).close()  # What hears of deaths stays open, once for all.
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with wakeups.listener(WORK | DONE) as waiter:
            (name,) = sockets_in(folder)
            assert name.startswith("wd-")
        waiter.close()
        assert not waiter.wait(SOON_SECONDS)
    assert sockets_in(folder) == []
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def _end_of(waiter: SocketListener, answers: list[bool]) -> threading.Thread:
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        answers.append(waiter.wait(SOON_SECONDS * 10))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    begun.wait(SOON_SECONDS)
    return thread


@pytest.mark.parametrize("can_bind", [True, False], ids=["socket", "only sleeping"])
def test_closing_ends_the_waits_of_all_threads(folder: SideFolder, can_bind: bool) -> None:
    if not can_bind:
        folder.wake.rmdir()
    for _ in range(10):
        wakeups = Wakeups(folder)
        answers: list[bool] = []
        threads = [_end_of(wakeups.listener(WORK), answers) for _ in range(3)]
        wakeups.close()
        for thread in threads:
            thread.join(SOON_SECONDS)
        assert answers == [False, False, False]


def test_what_is_closed_tells_nobody_and_waits_for_nothing(folder: SideFolder) -> None:
    closed, open_one = Wakeups(folder), Wakeups(folder)
    closed.close()
    with open_one.listener(WORK) as waiter:
        closed.tell(WORK)
        assert not waiter.wait(0)
        assert not closed.listener(WORK).wait(SOON_SECONDS)
        assert len(sockets_in(folder)) == 1
    open_one.close()


def test_a_waiter_whose_descriptor_was_taken_away_sleeps_instead_of_spinning(
    wakeups: Wakeups,
) -> None:
    with wakeups.listener(WORK) as waiter, open(os.devnull, "rb") as other:
        assert waiter._bound is not None
        os.dup2(other.fileno(), waiter._bound.socket.fileno())
        started = time.monotonic()
        assert not waiter.wait(0.05)
        assert time.monotonic() - started >= 0.05
