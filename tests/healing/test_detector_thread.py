"""The detector's thread: when it looks, what the kernel tells it, and when it ends."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast, Settings, StoreError
from outlast.host.waker import Waker
from outlast.maintenance.loop import MaintenanceLoop
from outlast.store.future import Listener
from outlast.store.ops.recovery.recovery import Recovery
from outlast.store.session import Session
from outlast.store.store import Store
from tests.crash.workers.working import until
from tests.healing.stage import Holder, Seconds, crashed_holder
from tests.store.hand import engine_of
from tests.support.children import Child


@pytest.mark.proves("HEAL-01", "HEAL-02")
def test_the_thread_looks_every_so_many_seconds_as_long_as_the_store_is_open(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a fake clock: each of the thread's waits is noted, and ends when the test says so."""
    waits: list[float] = []
    turns = threading.Semaphore(0)

    class InFakeTime(MaintenanceLoop):
        def __init__(self, session: Session) -> None:
            self._now = Seconds()
            super().__init__(session, self._now)

        def _sleep(self, deaths: Listener, waker: Waker, seconds: float) -> bool:
            waits.append(seconds)
            turns.acquire()
            self._now.now += seconds
            return False

        def stop(self) -> None:
            turns.release()
            super().stop()

    monkeypatch.setattr("outlast.app.handle.MaintenanceLoop", InFakeTime)
    app = make_app(detection_interval_seconds=7)
    app.enqueue("work", id="t")
    for n in range(2):
        with crashed_holder(app.path, ["t"], f"w{n}"):
            assert app.get("t").status == "running"
            turns.release()
            until(lambda: app.get("t").status == "pending", "nobody looked")
    until(lambda: len(waits) == 3, "it does not go on")
    app.close()
    assert waits == [7, 7, 7]


@pytest.mark.parametrize("was_there_first", [True, False])
def test_the_kernel_tells_it_of_a_death_at_once(
    make_app: Callable[..., Outlast], was_there_first: bool
) -> None:
    """Guards those who serve and never claim, whose next look of their own is an hour away."""
    app = make_app(detection_interval_seconds=3600)
    app.enqueue("work", id="t")
    if was_there_first:
        app.close()
    with Holder(app.path) as holder:
        assert holder.claims() == ["t"]
        app.open()
        until(lambda: _is_watched(app), "it does not know whom to watch")
        holder.signal(signal.SIGKILL)
        holder.wait()
        until(lambda: app.get("t").status == "pending", "it was not told")


def _is_watched(app: Outlast) -> bool:
    return bool(engine_of(app)._wakeups.exits._watched)


def test_a_worker_that_is_gone_before_anybody_could_watch_it_is_found_all_the_same(
    make_app: Callable[..., Outlast],
) -> None:
    """Guards the time between its registration and the next look at who is there."""
    app = make_app(detection_interval_seconds=3600).open()
    app.enqueue("work", id="t")
    with Holder(app.path) as holder:
        assert holder.claims() == ["t"]
        holder.signal(signal.SIGKILL)
        holder.wait()
    until(lambda: app.get("t").status == "pending", "nobody looked")


@pytest.mark.proves("HEAL-20")
def test_while_nobody_registers_it_only_asks_whether_anything_changed(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the idle: no look at the workers, and no write, as long as nothing happens."""
    monkeypatch.setattr("outlast.maintenance.loop.PEERS_SECONDS", 0.01)
    asked, looked = threading.Semaphore(0), []
    changes, come = Store.changes, Recovery.peers_have_come

    def asks(store: Store) -> int:
        asked.release()
        return changes(store)

    def looks(recovery: Recovery) -> bool:
        looked.append(recovery)
        return come(recovery)

    monkeypatch.setattr(Store, "changes", asks)
    monkeypatch.setattr(Recovery, "peers_have_come", looks)
    app = make_app(detection_interval_seconds=3600).open()
    for _ in range(20):
        assert asked.acquire(timeout=30)
    before = len(looked)
    assert before <= 2, "when it begins, and when it first asks"
    app.enqueue("work")
    until(lambda: len(looked) > before, "a commit was overlooked")


def test_what_fails_while_it_asks_who_is_there_is_not_the_end_of_it(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the thread: an error of one moment must not leave the process without a detector."""
    failed = threading.Event()

    def fails(recovery: Recovery) -> bool:
        failed.set()
        raise StoreError("not now")

    monkeypatch.setattr("outlast.maintenance.loop.PEERS_SECONDS", 0.01)
    app = make_app(detection_interval_seconds=3600)
    with monkeypatch.context() as broken:
        broken.setattr(Recovery, "peers_have_come", fails)
        app.enqueue("work", id="t")
        assert failed.wait(30)
    with crashed_holder(app.path, ["t"]):
        until(lambda: app.get("t").status == "pending", "nobody looked")


@pytest.mark.proves("HEAL-02")
def test_it_looks_every_minute_unless_told_otherwise_and_zero_switches_it_off(
    make_app: Callable[..., Outlast],
) -> None:
    assert Settings().detection_interval_seconds == 60

    def looking() -> int:
        return sum(one.name == "outlast-maintenance" for one in threading.enumerate())

    before = looking()
    app = make_app(detection_interval_seconds=60).open()
    assert looking() == before + 1
    app.close()
    make_app(detection_interval_seconds=0).open()
    make_app(recovery_enabled=False).open()
    assert looking() == before


def _forgets_five(path: str) -> None:
    import gc
    import os
    import threading

    from outlast import Outlast
    from tests.crash.workers.working import until
    from tests.support.childside import say

    def open_ones() -> tuple[int, int]:
        """Detectors, and pipes and the like: connections are as many as ever read at once."""
        gc.collect()
        names = [thread.name for thread in threading.enumerate()]
        files = [os.path.realpath(one.path) for one in os.scandir("/proc/self/fd")]
        # The watch of the folders is the store's own, and comes when they have been quiet.
        gone = [one for one in files if not os.path.exists(one) and "inotify" not in one]
        return names.count("outlast-maintenance"), len(gone)

    def forget_five() -> None:
        for _ in range(5):
            Outlast(path).enqueue("work")
        until(lambda: open_ones()[0] == 1, "detectors without an object look on")

    app = Outlast(path)
    app.enqueue("work")
    # What is opened when it is first needed is open after the first round.
    forget_five()
    before = open_ones()
    forget_five()
    until(lambda: open_ones() <= before, "descriptors of forgotten objects are open")
    say(before[0])


@pytest.mark.slow
def test_an_object_that_is_forgotten_and_never_closed_leaves_no_thread_and_no_descriptor(
    database: Path,
) -> None:
    """Each request of a server makes its own, say; the store stays open with the first.

    In a process of its own: what other tests forgot would be counted too.
    """
    with Child(_forgets_five, database) as child:
        assert child.hear() == 1
