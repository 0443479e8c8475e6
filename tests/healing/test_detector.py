"""The detector: in every serving process somebody looks for the dead, also where nobody claims."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from outlast import DatabaseError, Outlast, Settings, StoreError
from outlast.host.waker import Waker
from outlast.maintenance.loop import MaintenanceLoop
from outlast.store.future import Listener
from outlast.store.ops.recovery.recovery import Recovery
from outlast.store.session import Session
from outlast.store.store import Store
from outlast.testing import ManualClock
from tests.crash.working import until
from tests.healing.stage import Holder, crashed_holder, events
from tests.store.hand import Hand, engine_of, store_of
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows


class Seconds:
    """The detector's own clock: how much time it thinks has passed between its looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def detector(app: Outlast, seconds: Seconds) -> MaintenanceLoop:
    detector = MaintenanceLoop(app._handle.serve(), seconds)
    detector._interval_seconds = 60
    return detector


def test_each_look_takes_back_what_is_stale_by_then(
    app: Outlast, clock: ManualClock, detector: MaintenanceLoop, seconds: Seconds
) -> None:
    app.enqueue_many("work", range(2), id=["dead", "silent"])
    with crashed_holder(app.path, ["dead", "silent"]):
        seconds.now = 60
        assert detector.tick()
        assert app.counts()["pending"] == 2
    app.claim("w", limit=2, lease="90s")
    seconds.now = 120
    clock.advance("60s")
    assert detector.tick()
    assert app.counts()["running"] == 2
    seconds.now = 180
    clock.advance("60s")
    assert detector.tick()
    assert app.counts()["pending"] == 2


def test_a_look_that_finds_nothing_writes_nothing(app: Outlast, detector: MaintenanceLoop) -> None:
    before = store_of(app).changes()
    assert detector.tick()
    assert store_of(app).changes() == before


def test_a_look_that_comes_too_late_is_skipped_and_the_next_one_is_not(
    app: Outlast, detector: MaintenanceLoop, seconds: Seconds
) -> None:
    """The machine slept: others may not have had the time yet to say that they live."""
    app.enqueue("work", id="t")
    with crashed_holder(app.path, ["t"]):
        seconds.now = 120.1
        assert not detector.tick()
        assert app.get("t").status == "running"
        seconds.now = 180.1
        assert detector.tick()
        assert app.get("t").status == "pending"


@pytest.mark.parametrize("error", [StoreError, OSError, apsw.Error])
def test_an_error_is_told_and_the_next_look_is_taken(
    app: Outlast,
    detector: MaintenanceLoop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    def fails(*arguments: object) -> bool:
        raise error("the disk is gone")

    app.enqueue("work", id="t")
    with crashed_holder(app.path, ["t"]):
        with monkeypatch.context() as broken:
            broken.setattr(store_of(app).recovery, "is_due", fails)
            assert detector.tick()
        assert "the disk is gone" in caplog.text
        assert detector.tick()
        assert app.get("t").status == "pending"


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


def _only_serves(path: str) -> None:
    from outlast import Outlast, Settings
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    often = Settings(detection_interval_seconds=0.05)
    with Outlast(path, settings=often, clock=ManualClock()):
        say("serves")
        hear()


@pytest.fixture
def four_detectors(app: Outlast) -> Iterator[list[Child]]:
    with ExitStack() as stack:
        children = [stack.enter_context(Child(_only_serves, app.path)) for _ in range(4)]
        for child in children:
            assert child.hear() == "serves"
        yield children


@pytest.mark.slow
@pytest.mark.proves("HEAL-01", "HEAL-05")
def test_four_detectors_make_one_event_of_each_death(
    app: Outlast, database: Path, four_detectors: list[Child]
) -> None:
    """Real processes that only serve, and claim nothing."""
    ids = app.enqueue_many("work", range(10))
    died = []
    for n in range(2):
        with Holder(database, f"w{n}") as holder:
            assert holder.claims(10, lease="1h") == ids
            holder.kill()
            until(lambda: app.counts()["pending"] == 10, "nobody found it")
            died.append(holder.pid)
    for child in four_detectors:
        child.say()
        assert child.wait() == 0, child.error()
    assert [(one["worker"], one["pid"]) for one in events(database)] == [
        ("w0", died[0]),
        ("w1", died[1]),
    ]
    assert foreign_rows(database, "SELECT DISTINCT recovery_count FROM tasks") == [[2]]
    assert_sound(database)


@pytest.mark.proves("HEAL-05")
def test_a_death_is_declared_logged_and_told_with_the_last_of_its_tasks(
    make_app: Callable[..., Outlast],
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    hand: Hand,
) -> None:
    app = make_app(heal_batch=2)
    app.enqueue_many("work", range(5), id=list("abcde"))
    with crashed_holder(app.path, list("abcde")) as pid, caplog.at_level(logging.INFO, "outlast"):
        clock.advance("3s")
        assert app.heal().entries_reclaimed == 5
    (event,) = events(app.path)
    assert (event["worker"], event["pid"], event["at"]) == ("w", pid, clock.now().utc_ms)
    assert event["because"] == "its lock is free"
    row = "SELECT state, ended_at FROM workers WHERE pid = ?"
    assert hand.row(row, pid) == ("dead", clock.now().utc_ms)
    told = [one.getMessage() for one in caplog.records if "is dead" in one.getMessage()]
    assert told == [f"worker w (pid {pid}) is dead: its lock is free; 5 tasks put back, 0 failed"]


@pytest.mark.proves("HEAL-05")
def test_a_worker_is_not_dead_while_the_transaction_that_takes_its_tasks_fails(
    app: Outlast, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Death, event and taking are one transaction: what fails of it takes the rest along."""

    def fails(*arguments: object, **options: object) -> None:
        raise apsw.IOError("no news today")

    app.enqueue("work", id="t")
    with crashed_holder(app.path, ["t"]) as pid:
        with monkeypatch.context() as broken:
            broken.setattr("outlast.store.ops.recovery.healer.add_event", fails)
            with pytest.raises(DatabaseError, match="no news today"):
                app.heal()
        row = "SELECT state, ended_at FROM workers WHERE pid = ?"
        assert hand.row(row, pid) == ("alive", None)
        assert (app.get("t").status, events(app.path)) == ("running", [])
        assert app.heal().dead_workers == ("w",)
    assert app.get("t").status == "pending"


def _forgets_five(path: str) -> None:
    import gc
    import os
    import threading

    from outlast import Outlast
    from tests.crash.working import until
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


def test_who_stops_it_waits_for_a_batch_and_not_for_all_of_them(
    make_app: Callable[..., Outlast], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(heal_batch=1)
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    with crashed_holder(app.path, ["a", "b", "c"]):
        detector = MaintenanceLoop(app._handle.serve())
        detector._interval_seconds = 60
        detector.stop()
        detector.tick()
    assert app.counts()["running"] == 2
    assert "failed" not in caplog.text
    app.heal()
    assert app.counts()["running"] == 0, "the next one goes on"
