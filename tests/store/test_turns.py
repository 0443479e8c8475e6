"""Several processes want the write gate: who is called, who goes on, and what if nobody calls."""

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outlast import Outlast
from outlast.store.sqlite import turns
from outlast.store.sqlite.bell import Bell
from outlast.store.sqlite.files import SideFolder
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.turns import Turns
from tests.support.children import Child
from tests.support.foreign import foreign_rows

PATIENCE_SECONDS = 60
TASKS = 4000


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


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.001)


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
    assert gate._turns.contested_writes == 0
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


def test_or_after_ten_milliseconds(watched: Watched) -> None:
    assert [watched.write(0.0002, 0.004) for _ in range(3)] == [False, False, True]


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


@pytest.mark.parametrize(
    ("away_seconds", "called_seconds_ago", "sleeps_long"),
    [(0.002, 0.05, True), (0.006, 0.05, False), (0.002, 0.2, False)],
)
def test_who_writes_on_sleeps_until_it_is_called_and_who_writes_now_and_then_looks_often(
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    away_seconds: float,
    called_seconds_ago: float,
    sleeps_long: bool,
) -> None:
    slept: list[float] = []

    def wait(bell: Bell, seconds: float) -> bool:
        slept.append(seconds)
        return len(slept) == 1

    monkeypatch.setattr(Bell, "wait", wait)
    watched.sleep(0.0002)
    watched.write(called_seconds_ago - away_seconds)
    watched.now += away_seconds
    watched.stand_in_row()
    for _ in range(20):
        watched.sleep(0.0002)
    if sleeps_long:
        assert all(0.0075 <= seconds <= 0.015 for seconds in slept[1:])
        assert len(set(slept)) > 10
    else:
        assert set(slept) == {0.0002}


def _works_off(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path) as app:
        say("ready")
        hear()
        done = 0
        while leases := app.claim("w", limit=10):
            done += sum(app.complete_many([(lease, None) for lease in leases]))
    say(done)


def test_processes_that_take_turns_do_everything_once_and_none_goes_away_empty(
    database: Path,
) -> None:
    with (
        Outlast(database) as app,
        Child(_works_off, database) as one,
        Child(_works_off, database) as other,
    ):
        app.enqueue_many("work", range(TASKS))
        for child in (one, other):
            child.hear()
        for child in (one, other):
            child.say()
        shares = [one.hear(), other.hear()]
        assert stat.S_ISFIFO(SideFolder(database).bell.lstat().st_mode), "they met"
    assert sum(shares) == TASKS
    assert min(shares) > TASKS / 10
    moves = "SELECT to_status, count(*), count(DISTINCT task_seq) FROM transitions GROUP BY 1"
    assert foreign_rows(database, moves) == [
        ["completed", TASKS, TASKS],
        ["running", TASKS, TASKS],
    ]


def _dies_at_the_gate(path: str) -> None:
    import os
    import signal

    from outlast import Outlast, _probe
    from tests.support.childside import hear, say

    def die(name: str) -> None:
        if name == "enqueue.written":
            say(name)
            hear()
            os.kill(os.getpid(), signal.SIGKILL)

    app = Outlast(path).open()
    _probe.arm(die)
    app.enqueue("work", id="lost")


def test_one_who_dies_inside_rings_for_nobody_and_is_followed_all_the_same(database: Path) -> None:
    with Outlast(database) as app, Child(_dies_at_the_gate, database) as other:
        other.hear()
        waiter = threading.Thread(target=app.enqueue, args=("work",), kwargs={"id": "next"})
        waiter.start()
        wait_until(SideFolder(database).bell.exists)
        other.say()
        waiter.join(PATIENCE_SECONDS)
        assert not waiter.is_alive()
    assert foreign_rows(database, "SELECT id FROM tasks") == [["next"]]


def _keeps_it_open(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path):
        say("open")
        hear()


def test_the_last_to_leave_takes_the_bell_down(app: Outlast) -> None:
    """A FIFO that stayed would be in the way of every copy of the folder."""
    app.open()
    folder = SideFolder(app.path)
    bell = Bell.of(folder)
    assert bell is not None
    bell.close()
    with Child(_keeps_it_open, app.path) as child:
        assert child.hear() == "open"
        app.close()
        assert folder.bell.exists(), "somebody may still ring it"
    app.open()
    app.close()
    assert not folder.bell.exists()


def test_who_is_interrupted_while_it_takes_the_bell_down_locks_nobody_out(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.open()
    bell = Bell.of(SideFolder(app.path))
    assert bell is not None
    bell.close()
    unlink = Path.unlink

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        if path.name == "bell":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as struck:
        struck.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            app.close()
    with Child(_keeps_it_open, app.path) as other:
        assert other.hear() == "open"
