"""Who is alone passes the write gate without taking it; a word in its file calls everybody back."""

import fcntl
import mmap
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outlast import Outlast, QueueStalled, Settings
from outlast.store.sqlite import gate
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from tests.store.hand import store_of
from tests.store.waking import wait_until
from tests.support.children import Child
from tests.support.foreign import foreign_rows
from tests.support.sitting import sits_in_a_transaction

PATIENCE_SECONDS = 60


class Locking(list[int]):
    """Notes each lock and unlock of the gate that this process asks the kernel for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        monkeypatch.setattr(gate, "flock", self._flock)

    def _flock(self, descriptor: int, how: int) -> None:
        self.append(how)
        fcntl.flock(descriptor, how)


@pytest.fixture
def locking(monkeypatch: pytest.MonkeyPatch) -> Locking:
    return Locking(monkeypatch)


@pytest.fixture
def folder(database: Path) -> SideFolder:
    database.touch()
    folder = SideFolder(database)
    folder.make()
    return folder


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    ticking = SimpleNamespace(now=100.0)
    monkeypatch.setattr(gate, "monotonic", lambda: ticking.now)
    return ticking


@pytest.fixture
def gates(folder: SideFolder, ticking: SimpleNamespace) -> Iterator[tuple[WriteGate, WriteGate]]:
    """Two processes' ends of it; they share nothing but the file. Both have just had it."""
    both = WriteGate(folder, 60, 60), WriteGate(folder, 60, 60)
    for one in both:
        with one:
            pass
    yield both
    for one in both:
        one.close()


def passes(one: WriteGate, locking: Locking) -> bool:
    """Whether it goes through without a lock."""
    locking.clear()
    one.enter()
    one.leave()
    return not locking


def test_a_lone_writer_asks_for_no_lock(
    app: Outlast, locking: Locking, ticking: SimpleNamespace
) -> None:
    app.enqueue("work")
    locking.clear()
    for _ in range(10):
        app.enqueue("work")
    (lease,) = app.claim("w")
    lease.complete()
    assert locking == []


def test_one_who_finds_the_engine_busy_calls_all_to_the_gate(
    gates: tuple[WriteGate, WriteGate], locking: Locking
) -> None:
    one, other = gates
    assert passes(one, locking)
    assert passes(other, locking)
    other.insist()
    other.leave()
    assert [passes(one, locking) for _ in range(33)] == [False] * 32 + [True]


def test_its_own_call_is_no_news_to_it(
    gates: tuple[WriteGate, WriteGate], locking: Locking
) -> None:
    one, _ = gates
    one.insist()
    one.leave()
    assert passes(one, locking)


def test_who_has_waited_calls_again_so_that_nobody_forgets_it(
    gates: tuple[WriteGate, WriteGate],
    locking: Locking,
    folder: SideFolder,
    ticking: SimpleNamespace,
) -> None:
    """Else a third, which has written for long without meeting anybody, would pass by for ever."""
    one, other = gates
    third = WriteGate(folder, 60, 60)
    ticking.now += 0.01
    other.insist()
    other.leave()
    while not passes(third, locking):
        continue
    ticking.now += 0.01
    with other:
        waiter = threading.Thread(target=passes, args=(one, locking))
        waiter.start()
        wait_until(lambda: one.retries > 0)
    waiter.join(PATIENCE_SECONDS)
    assert not passes(third, locking)
    third.close()


def test_who_finds_the_engine_busy_behind_the_gate_calls_all_the_same(
    gates: tuple[WriteGate, WriteGate], locking: Locking
) -> None:
    """It has the gate already, and somebody passes it by."""
    one, other = gates
    with other:
        other.insist()
        assert other.is_ours
    assert not passes(one, locking)


def test_one_that_passes_by_looks_in_from_time_to_time(
    gates: tuple[WriteGate, WriteGate], locking: Locking, ticking: SimpleNamespace
) -> None:
    """Another version may wait there, or somebody who cannot write a word."""
    one, _ = gates
    ticking.now += 0.019
    assert passes(one, locking)
    ticking.now += 0.002
    assert [passes(one, locking) for _ in range(2)] == [False, True]


def test_the_words_have_a_place_on_the_disk(
    folder: SideFolder, gates: tuple[WriteGate, WriteGate]
) -> None:
    """To read one that has none, on a full disk in memory, would end the process."""
    assert folder.gate.stat().st_blocks > 0


def test_a_gate_that_cannot_be_mapped_is_taken_each_time(
    folder: SideFolder, locking: Locking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr(mmap, "mmap", refused)
    alone = WriteGate(folder, 60, 60)
    assert [passes(alone, locking) for _ in range(3)] == [False] * 3
    alone.close()


def test_a_word_that_cannot_be_written_leaves_the_rest_as_it_is(
    gates: tuple[WriteGate, WriteGate], locking: Locking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    one, other = gates
    with monkeypatch.context() as filled:
        filled.setattr(os, "pwrite", full)
        other.insist()
    assert passes(one, locking), "it has not heard"
    other.leave()


def test_a_closed_gate_lets_go_of_all_its_descriptors(folder: SideFolder) -> None:
    """The mapping has one of its own, and a lock lives as long as any of them."""
    before = sorted(os.listdir("/proc/self/fd"))
    one = WriteGate(folder, 60, 60)
    with one:
        pass
    one.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def _waits_for_it(path: str) -> None:
    from outlast import Outlast, Settings
    from tests.support.childside import hear, say

    app = Outlast(path, settings=Settings(stall_seconds=60, write_timeout_seconds=60)).open()
    say("ready")
    hear()
    say(app.enqueue("work", id="behind").id)
    hear()


def test_behind_one_who_waits_for_a_stopped_writer_it_is_the_stopped_one_that_is_named(
    database: Path,
) -> None:
    """It holds no gate, for it was alone when it came; who waits for it holds the gate and is
    blameless."""
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=60)
    with Outlast(database, settings=settings) as app, Child(_waits_for_it, database) as second:
        second.hear()
        with Child(sits_in_a_transaction, database) as first:
            first.hear()
            first.signal(signal.SIGSTOP)
            second.say()
            wait_until(lambda: _is_locked(SideFolder(database).gate))
            with pytest.raises(QueueStalled, match=rf"process {first.pid} \(stopped\)"):
                app.enqueue("work", id="waiting")
            assert store_of(app)._gate.retries, "it waited at the gate"
            first.signal(signal.SIGCONT)
            first.say()
            assert first.hear() == "slow"
            assert second.hear() == "behind"
            second.say()
    assert foreign_rows(database, "SELECT id FROM tasks ORDER BY id") == [["behind"], ["slow"]]


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
