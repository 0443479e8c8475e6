"""Who begins to listen changes a word; who finds it unchanged asks the kernel nothing."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.store.sqlite import words
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.wakeups import notify
from outlast.store.sqlite.wakeups.notify import Wakeups
from tests.store.hand import store_of
from tests.store.waking import WORK, make_folder


class Committer:
    """One that tells by the word, on a clock of ours; counts its looks at the folder's time."""

    def __init__(self, folder: SideFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.looks = 0
        self._gate = WriteGate(folder, 60, 60)
        self.wakeups = Wakeups(folder)
        self.wakeups.heed(self._gate.words)
        monkeypatch.setattr(notify, "monotonic", lambda: self.now)
        monkeypatch.setattr(notify, "stat", self._stat)

    def _stat(self, what: Any) -> os.stat_result:
        self.looks += 1
        return os.stat(what)

    def tells(self) -> int:
        """How many looks that took."""
        before = self.looks
        self.wakeups.tell(WORK)
        return self.looks - before

    def close(self) -> None:
        self.wakeups.close()
        self._gate.close()


@pytest.fixture
def folder(database: Path) -> SideFolder:
    return make_folder(database)


@pytest.fixture
def committer(folder: SideFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Committer]:
    one = Committer(folder, monkeypatch)
    one.tells()
    yield one
    one.close()


@pytest.fixture
def listener(folder: SideFolder) -> Iterator[Wakeups]:
    one = Wakeups(folder)
    yield one
    one.close()


def test_nobody_is_asked_while_the_word_stays_what_it_was(committer: Committer) -> None:
    assert [committer.tells() for _ in range(5)] == [0] * 5


def test_one_who_begins_to_listen_is_told_by_the_next_commit(
    committer: Committer, listener: Wakeups
) -> None:
    """In the same moment: the folder's time may not have moved on."""
    for _ in range(3):
        with listener.waiter(WORK) as waiter:
            committer.tells()
            assert waiter.wait(0)
            committer.tells()
            assert waiter.wait(0)


def test_one_who_cannot_write_a_word_is_told_twenty_milliseconds_later(
    committer: Committer, listener: Wakeups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "change_in", lambda path, place: None)
    with listener.waiter(WORK) as waiter:
        committer.now += 0.019
        committer.tells()
        assert not waiter.wait(0)
        committer.now += 0.002
        committer.tells()
        assert waiter.wait(0)


def test_a_look_that_failed_is_made_again(
    committer: Committer, listener: Wakeups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word is known when the look has succeeded, and not before."""

    def failing(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with listener.waiter(WORK) as waiter:
        with monkeypatch.context() as short:
            short.setattr(Wakeups, "_look", failing)
            committer.tells()
        committer.tells()
        assert waiter.wait(0)


def test_nothing_is_written_into_a_file_that_has_another_name(
    folder: SideFolder, tmp_path: Path, listener: Wakeups
) -> None:
    """Planted, or made so by a program that saves space: what is in it is somebody's."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"do not touch")
    folder.gate.unlink()
    os.link(precious, folder.gate)
    gate = WriteGate(folder, 60, 60)
    assert gate.words is None
    with listener.waiter(WORK), gate:
        gate.insist()
    gate.close()
    assert precious.read_bytes() == b"do not touch"


def test_a_file_that_is_not_there_is_not_made_by_who_listens(
    folder: SideFolder, listener: Wakeups
) -> None:
    folder.gate.unlink()
    with listener.waiter(WORK):
        assert not folder.gate.exists()


def test_the_words_of_a_store_are_as_private_as_the_database(app: Outlast) -> None:
    app.open()
    gate = SideFolder(app.path).gate
    assert gate.stat().st_mode == app.path.stat().st_mode
    assert gate.stat().st_size == words.mmap.PAGESIZE  # type: ignore[attr-defined]
    assert store_of(app)._gate.words is not None
