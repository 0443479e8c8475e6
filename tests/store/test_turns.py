"""Several processes want the write gate: who is called, who goes on, and what if nobody calls."""

import fcntl
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outlast import Outlast
from outlast.store.sqlite import turns
from outlast.store.sqlite.bell import Bell
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.turns import Turns
from tests.store.hand import store_of
from tests.store.waking import wait_until

PATIENCE_SECONDS = 60


@pytest.fixture
def folder(database: Path) -> SideFolder:
    database.touch(mode=0o640)
    folder = SideFolder(database)
    folder.make()
    return folder


@pytest.fixture
def hang(folder: SideFolder) -> Iterator[Callable[[], Bell]]:
    """Each process's own end of the one bell."""
    hung: list[Bell] = []

    def make() -> Bell:
        bell = Bell.of(folder)
        assert bell is not None
        hung.append(bell)
        return bell

    yield make
    for bell in hung:
        bell.close()


def is_asleep(thread: threading.Thread) -> bool:
    return "S" in Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rsplit(")", 1)[1][:3]


def test_a_ring_wakes_the_one_who_has_waited_longest_and_nobody_else(
    hang: Callable[[], Bell],
) -> None:
    ringer, woken = hang(), list[int]()

    def sleep(number: int, bell: Bell) -> None:
        bell.stand_in_row()
        assert bell.wait(PATIENCE_SECONDS)
        woken.append(number)

    sleepers = [threading.Thread(target=sleep, args=(n, hang())) for n in range(3)]
    for sleeper in sleepers:
        sleeper.start()
        wait_until(lambda one=sleeper: is_asleep(one))  # type: ignore[misc]
    for count, sleeper in enumerate(sleepers, 1):
        ringer.ring()
        sleeper.join(PATIENCE_SECONDS)
        assert woken == list(range(count))


def test_one_who_waited_before_stands_behind_those_who_wait_still(
    hang: Callable[[], Bell],
) -> None:
    first, second, ringer = hang(), hang(), hang()
    for bell in (first, second, first):
        bell.stand_in_row()
    woken: list[str] = []
    names = {"first": first, "second": second}

    def sleep(name: str) -> None:
        assert names[name].wait(PATIENCE_SECONDS)
        woken.append(name)

    sleepers = {name: threading.Thread(target=sleep, args=(name,)) for name in names}
    for sleeper in sleepers.values():
        sleeper.start()
        wait_until(lambda one=sleeper: is_asleep(one))  # type: ignore[misc]
    ringer.ring()
    sleepers["second"].join(PATIENCE_SECONDS)
    assert woken == ["second"]
    ringer.ring()
    sleepers["first"].join(PATIENCE_SECONDS)


def test_a_ring_that_nobody_waited_for_is_heard_once_by_the_next(hang: Callable[[], Bell]) -> None:
    """It came between a look at the gate and the sleep, as far as anybody knows."""
    waiter, ringer = hang(), hang()
    for _ in range(100_000):
        ringer.ring()
    waiter.stand_in_row()
    assert waiter.wait(PATIENCE_SECONDS)
    while waiter.wait(0):
        pass
    assert not waiter.wait(0.001)


def test_the_bell_is_as_private_as_the_database(folder: SideFolder) -> None:
    bell = Bell.of(folder)
    assert bell is not None
    bell.close()
    found = folder.bell.lstat()
    assert stat.S_ISFIFO(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o640


@pytest.mark.parametrize("planted", ["file", "link", "no folder"])
def test_without_a_bell_the_gate_is_waited_for_all_the_same(
    folder: SideFolder, tmp_path: Path, planted: str
) -> None:
    if planted == "file":
        folder.bell.write_text("")
    elif planted == "link":
        os.mkfifo(tmp_path / "elsewhere")
        folder.bell.symlink_to(tmp_path / "elsewhere")
    else:
        folder.wake.rmdir()
    assert Bell.of(folder) is None
    gate = WriteGate(folder, 5, 30)
    other = os.open(folder.gate, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    timer = threading.Timer(0.02, os.close, [other])
    timer.start()
    with gate:
        timer.join()
    assert gate.turns.contested_writes == 31, "others want it, whether they can be called or not"
    gate.close()


class Watched(Turns):
    """Turns on a clock of ours; counts the rings."""

    def __init__(self, folder: SideFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.now = 1000.0
        self.rings = 0
        monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(Bell, "ring", self._count)

    def _count(self) -> None:
        self.rings += 1

    def write(self, away_seconds: float, takes_seconds: float = 0.001) -> bool:
        """Come back after so long and write; whether the others were called."""
        before = self.rings
        self.now += away_seconds
        self.come_back()
        self.now += takes_seconds
        self.leave()
        return self.rings > before


@pytest.fixture
def watched(folder: SideFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """One who has just waited for the gate and got it."""
    watched = Watched(folder, monkeypatch)
    watched.stand_in_row()
    watched.begin()
    yield watched
    watched.close()


def test_who_comes_straight_back_calls_the_next_after_eight_writes(watched: Watched) -> None:
    assert [watched.write(0.0002) for _ in range(8)] == [False] * 7 + [True]


def test_or_after_twenty_milliseconds(watched: Watched) -> None:
    assert [watched.write(0.0002, 0.008) for _ in range(3)] == [False, False, True]


def test_who_takes_its_time_keeps_others_waiting_ever_more_seldom(watched: Watched) -> None:
    """It was expected back and did not come: that is not to happen often."""
    kept = 0
    for _ in range(1000):
        watched.begin()
        kept += not watched.write(0.005)
    assert kept < 25


def test_a_late_return_among_quick_ones_is_forgiven(watched: Watched) -> None:
    watched.write(0.0002)
    assert [watched.write(0.005), watched.write(0.0002)] == [True, True]
    watched.begin()
    assert [watched.write(0.0002) for _ in range(8)] == [False] * 7 + [True]


def test_others_are_forgotten_when_nothing_was_seen_of_them_for_32_writes(
    watched: Watched,
) -> None:
    for _ in range(32):
        assert watched.contested_writes
        watched.write(0.0002)
    assert not watched.contested_writes


USUAL, NAP = 0.0002, 0.005


@pytest.fixture
def slept(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each sleep was to be; nobody calls."""
    slept: list[float] = []

    def wait(bell: Bell, seconds: float) -> bool:
        slept.append(seconds)
        watched.now += seconds
        return False

    monkeypatch.setattr(Bell, "wait", wait)
    watched.commits = itertools.count().__next__
    return slept


def _waits(watched: Watched, away_seconds: float, sleeps: int) -> None:
    watched.write(0.0)
    watched.now += away_seconds
    watched.stand_in_row()
    for _ in range(sleeps):
        watched.sleep(USUAL)


def test_who_writes_now_and_then_looks_often(watched: Watched, slept: list[float]) -> None:
    _waits(watched, 0.006, 20)
    assert slept == [USUAL] * 20


def test_who_writes_on_sleeps_until_it_is_called(watched: Watched, slept: list[float]) -> None:
    """Guards against one who looks up in the middle of others' turns, and ends them."""
    lengths = set()
    for _ in range(20):
        before = watched.now
        _waits(watched, 0.002, 1)
        lengths.add(round(watched.now - before, 2))
        watched._missed_calls = 0
    assert set(slept) == {NAP}
    assert min(lengths) >= 0.05
    assert max(lengths) <= 0.12
    assert len(lengths) > 2


def test_who_finds_that_nobody_writes_looks_up(watched: Watched, slept: list[float]) -> None:
    """Guards against a tenth of a second lost after each who was expected back and has gone."""
    watched.commits = lambda: 7
    _waits(watched, 0.002, 1)
    assert slept == [NAP]
    assert watched._missed_calls == 0


def test_who_was_not_called_looks_often_for_a_while(watched: Watched, slept: list[float]) -> None:
    """Guards against a wait of a tenth of a second for each write beside one who never calls."""
    _waits(watched, 0.002, 5)
    _waits(watched, 0.002, 5)
    assert slept[-8:] == [USUAL] * 8
    assert USUAL not in slept[:-8]
    watched.now += 0.1
    _waits(watched, 0.002, 1)
    assert slept[-1] == NAP


def test_the_trust_comes_back_ever_more_slowly(watched: Watched, slept: list[float]) -> None:
    """Guards against one that sleeps most of its time beside a process that never calls."""
    began = watched.now
    while watched.now < began + 60:
        _waits(watched, 0.002, 1)
    assert sum(seconds for seconds in slept if seconds > USUAL) < 2


def test_a_ring_of_our_own_that_nobody_heard_is_no_call(
    folder: SideFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real FIFO: it rings at once for whoever comes next, and that may be who rang."""
    monkeypatch.setattr(turns, "_LONGEST_SLEEP_SECONDS", 0.01)
    ours = Turns(folder)
    ours.commits = itertools.count().__next__
    ours.stand_in_row()
    for _ in range(3):
        ours.begin()
        for _ in range(8):
            ours.come_back()
            ours.leave()
        ours.stand_in_row()
        ours.sleep(USUAL)
        ours.sleep(USUAL)
    assert ours._missed_calls == 2, "of the third wait on nothing is missed: it looks often"
    ours.close()


def test_a_call_restores_the_trust_in_calls(
    watched: Watched, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    _waits(watched, 0.002, 1)
    assert watched._missed_calls == 1

    def called(bell: Bell, seconds: float) -> bool:
        watched.now += 0.001
        return True

    monkeypatch.setattr(Bell, "wait", called)
    watched.sleep(USUAL)
    assert watched._missed_calls == 0


def test_the_store_tells_those_who_wait_of_each_commit(app: Outlast) -> None:
    app.open()
    commits = store_of(app)._gate.turns.commits
    seen = [commits()]
    for _ in range(3):
        app.enqueue("work")
        seen.append(commits())
    assert len(set(seen)) == 4
