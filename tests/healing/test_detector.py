"""The detector: in every serving process somebody looks for the dead, also where nobody claims."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from outlast import DatabaseError, Outlast, StoreError
from outlast.maintenance.loop import MaintenanceLoop
from outlast.testing import ManualClock
from tests.crash.workers.working import until
from tests.healing.stage import Holder, Seconds, crashed_holder, events
from tests.store.hand import Hand, store_of
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows


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
            broken.setattr("outlast.store.ops.recovery.dead_worker.add_event", fails)
            with pytest.raises(DatabaseError, match="no news today"):
                app.heal()
        row = "SELECT state, ended_at FROM workers WHERE pid = ?"
        assert hand.row(row, pid) == ("alive", None)
        assert (app.get("t").status, events(app.path)) == ("running", [])
        assert app.heal().dead_workers == ("w",)
    assert app.get("t").status == "pending"


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
