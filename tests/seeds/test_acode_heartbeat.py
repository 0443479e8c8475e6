"""acode's requirements on heartbeats and dead workers, FR-031 to FR-055 and their criteria.

A worker whose silence is to be judged stands on another host: nobody here can ask for its lock.
Its row is made so by hand; time is the test's own.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Settings, WorkerInfo
from outlast.maintenance.loop import MaintenanceLoop
from outlast.testing import ManualClock
from tests.crash.workers.working import (
    WorkerChild,
    looking,
    named,
    status_is,
    until,
    write_lock_held,
)
from tests.seeds.crashing import copy_of, crash, facts, moved_to_another_host
from tests.support.recovery_validator import validated

DEAD_AFTER = "100.001s"
STALE_AFTER = "90.001s"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker `far` of another host holds `a` and `spent`, whose crash budget is used up.

    It holds a named lock, too.
    """
    database, clock = tmp_path_factory.mktemp("far") / "work.db", ManualClock()
    with Outlast(database, clock=clock) as app:
        app.enqueue("work", id="a")
        app.enqueue("work", id="spent", max_recoveries=0)
    assert crash(database, "far", limit=2, clock=clock, lock="merge") == ["a", "spent"]
    moved_to_another_host(database, "far")
    return database


@pytest.fixture
def far(
    template: Path, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Outlast]:
    # Its own thread would look when it pleases; the tests look by a detector that they made.
    monkeypatch.setattr(MaintenanceLoop, "start", lambda detector: None)
    with Outlast(copy_of(template, tmp_path), clock=clock) as app:
        assert app.counts()["running"] == 2
        yield app


def worker_named(app: Outlast, name: str) -> WorkerInfo:
    (found,) = [one for one in app.workers() if one.name == name]
    return found


# FR-031 to FR-038: beats, and when they are missed


def test_fr_031_to_fr_036_workers_send_heartbeats_with_worker_task_and_time(
    database: Path,
) -> None:
    """AC-006: idle and busy alike."""
    settings = {"heartbeat_interval_seconds": 0.05}
    with WorkerChild(database, "w", settings) as worker, looking(database) as app:
        until(database.exists, "there is no store")
        until(lambda: app.is_alive("w"), "it does not register")
        first = named(app, "w").beat_at
        until(lambda: named(app, "w").beat_at > first, "it does not beat while it is idle")
        app.enqueue("held", id="t")
        worker.begun("t")
        busy = named(app, "w").beat_at
        until(lambda: named(app, "w").beat_at > busy, "it does not beat while it is busy")
        rows = facts(database, "SELECT worker_id, task_id, timestamp FROM worker_heartbeats")
        ((name, task_id, timestamp),) = [row for row in rows if row[0] == "w"]
        assert (name, task_id) == ("w", "t")
        assert timestamp.endswith("Z")
        worker.let_go("t")
        worker.signal(signal.SIGTERM)
        worker.ended()
        app.close()


@pytest.mark.parametrize(
    ("given", "interval_ms", "stale_ms"),
    [({}, 30_000, 90_000), ({"heartbeat_interval_seconds": 7}, 7_000, 21_000)],
)
def test_fr_032_fr_033_the_interval_is_configurable_and_30_seconds_by_default(
    given: dict[str, float], interval_ms: int, stale_ms: int
) -> None:
    heartbeat = Settings(**given).heartbeat  # type: ignore[arg-type]
    assert (heartbeat.interval_ms, heartbeat.stale_ms) == (interval_ms, stale_ms)


@pytest.mark.parametrize(("given", "threshold_seconds"), [(None, 90.0), (70.0, 70.0)])
def test_fr_037_fr_038_the_threshold_is_configurable_and_three_intervals_by_default(
    make_app: Callable[..., Outlast],
    clock: ManualClock,
    given: float | None,
    threshold_seconds: float,
) -> None:
    app = make_app(heartbeat_stale_seconds=given)
    app.heartbeat("w")
    clock.advance(threshold_seconds)
    assert worker_named(app, "w").state == "alive"
    clock.advance(0.001)
    assert worker_named(app, "w").state == "stale"


# FR-039 to FR-044: detection


def test_fr_039_stale_detection_runs_periodically_by_itself(database: Path) -> None:
    """AC-007: in a process that never claims, and calls nothing."""
    settings = Settings(detection_interval_seconds=0.05)
    with Outlast(database) as app:
        app.enqueue("work", id="t")
    with Outlast(database, settings=settings) as app:
        with validated(database):
            assert crash(database) == ["t"]
            status_is(app, "t", "pending")
        assert app.get("t").recovery_count == 1


def test_fr_040_fr_041_the_detection_interval_is_configurable_and_60_seconds_by_default(
    far: Outlast, clock: ManualClock
) -> None:
    """It decides which tick comes too late to be trusted: after a stop, silence proves nothing."""
    assert Settings().detection_interval_seconds == 60
    now_seconds = [0.0]
    detector = MaintenanceLoop(far._handle.serve(), clock=lambda: now_seconds[0])
    clock.advance(DEAD_AFTER)
    now_seconds[0] = 121.0
    assert not detector.tick()
    assert far.get("a").status == "running"
    now_seconds[0] += 60.0
    assert detector.tick()
    assert far.get("a").status == "pending"


def test_fr_042_stale_workers_are_identified_those_without_a_task_too(
    app: Outlast, clock: ManualClock
) -> None:
    """The seed's query dropped workers that died idle."""
    app.heartbeat("idle")
    moved_to_another_host(app.path, "idle")
    clock.advance(STALE_AFTER)
    assert worker_named(app, "idle").state == "stale"
    assert app.recover().stale_workers == ("idle",)
    clock.advance("10s")
    assert app.heal().dead_workers == ("idle",)


def _started_anew(app: Outlast) -> None:
    app.close()
    app.open()


DOORS: dict[str, Callable[[Outlast], object]] = {
    "detector": lambda app: MaintenanceLoop(app._handle.serve()).tick(),
    "heal": lambda app: app.heal(),
    "recover": lambda app: app.recover(),
    "claim": lambda app: app.claim("w", queue="empty"),
    "start": _started_anew,
}


@pytest.mark.parametrize("door", DOORS)
def test_fr_043_fr_044_stale_tasks_are_recovered_by_the_same_rules_through_every_door(
    far: Outlast, clock: ManualClock, door: str
) -> None:
    clock.advance(STALE_AFTER)
    DOORS[door](far)
    assert far.counts()["running"] == 2, "within the grace nothing is taken away"
    clock.advance("10s")
    DOORS[door](far)
    back, failed = far.get("a"), far.get("spent")
    assert (back.status, back.attempt, back.recovery_count) == ("pending", 1, 1)
    assert (failed.status, failed.attempt, failed.recovery_count) == ("failed", 1, 0)
    last = [far.history(one)[-1] for one in ("a", "spent")]
    assert [(one.reason, one.actor) for one in last] == [
        ("crash_retry", "system/recovery"), ("max_retries_exceeded", "system/recovery")
    ]  # fmt: skip
    assert far.heal().entries_reclaimed == 0


# FR-045 to FR-050: what becomes of the worker


@pytest.fixture
def dead(far: Outlast, clock: ManualClock) -> Outlast:
    """The same, and its worker was found dead."""
    clock.advance(DEAD_AFTER)
    far.heal()
    return far


def test_fr_045_the_worker_is_marked_dead_and_stays_listed(
    dead: Outlast, clock: ManualClock
) -> None:
    """AC-008; the seed deleted its row, so that its next beat brought it back to life."""
    found = worker_named(dead, "far")
    assert (found.state, found.task_ids) == ("dead", ())
    assert found.ended_at is not None
    assert found.ended_at.timestamp() * 1000 == clock.now().utc_ms
    assert not dead.is_alive("far")


def test_fr_046_fr_050_the_dead_worker_and_its_clean_up_are_logged(
    dead: Outlast, caplog: pytest.LogCaptureFixture
) -> None:
    said = [record.getMessage() for record in caplog.get_records("setup")]
    (line,) = [one for one in said if one.startswith("worker far ")]
    assert " is dead: " in line
    assert "was not heard of for 100 s" in line
    assert line.endswith("1 tasks put back, 1 failed")


def test_fr_047_one_dead_worker_event_is_emitted(dead: Outlast) -> None:
    dead.heal()
    query = "SELECT worker_id, incarnation FROM events WHERE kind = 'worker.dead'"
    assert facts(dead.path, query) == [["far", "far-far"]]


def test_fr_048_fr_049_clean_up_releases_all_that_it_held(dead: Outlast) -> None:
    """Tasks and named locks; nothing names it as holder any more.

    Its lock had most of its time before it.
    """
    seq = "(SELECT seq FROM workers WHERE name = 'far')"
    for table in ("tasks", "locks"):
        assert facts(dead.path, f"SELECT count(*) FROM {table} WHERE holder = {seq}") == [[0]]
    assert [lease.task_id for lease in dead.claim("next", limit=9)] == ["a"]


def test_fr_049_the_lock_file_of_a_dead_process_is_removed(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work")
    crash(database)
    lock_files = database.with_name(f"{database.name}-outlast") / "workers"
    assert len(list(lock_files.iterdir())) == 1
    with validated(database), Outlast(database):
        assert list(lock_files.iterdir()) == []


# FR-051 to FR-055: when beating is hard


def test_fr_051_fr_052_fr_054_a_beat_that_fails_ends_nothing_and_is_tried_again(
    database: Path,
) -> None:
    """Nobody can write for some intervals: the handler goes on, and so do the beats afterwards."""
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    settings = {"heartbeat_interval_seconds": 0.3}
    with WorkerChild(database, "w", settings) as worker, looking(database) as app:
        worker.begun("t")
        with write_lock_held(database):
            before = named(app, "w").beat_at
            until(lambda: len(_failed_beats(worker)) >= 2, "no beat fails")
        until(lambda: named(app, "w").beat_at > before, "it does not beat again")
        worker.let_go("t")
        status_is(app, "t", "completed")
        assert (app.get("t").attempt, app.get("t").recovery_count) == (1, 0)
        worker.signal(signal.SIGTERM)
        assert worker.ended()["completed"] == 1


def _failed_beats(worker: WorkerChild) -> list[str]:
    return [text for _, text in worker.troubles() if "a beat failed and is tried again" in text]


@pytest.mark.parametrize(("interval_seconds", "most_ms"), [(30, 5_000), (3, 1_000)])
def test_fr_053_the_timeout_of_a_beat_is_reasonable(interval_seconds: float, most_ms: int) -> None:
    """A third of the interval, and never more than five seconds."""
    settings = Settings(heartbeat_interval_seconds=interval_seconds)
    assert settings.heartbeat.timeout_ms == most_ms


def test_fr_055_the_heartbeat_status_is_queryable(app: Outlast, clock: ManualClock) -> None:
    """HBI-2, HBI-5: fresh, old, dead, unknown."""
    for name in ("dead", "old", "fresh"):
        app.enqueue("work", id=name)
        app.claim(name, lease="1h")
    moved_to_another_host(app.path, "dead")
    clock.advance(DEAD_AFTER)
    app.heartbeat("fresh", ["fresh"])
    app.heal()
    found = {one.name: (one.state, one.task_ids) for one in app.workers()}
    assert found == {
        "fresh": ("alive", ("fresh",)), "old": ("stale", ("old",)), "dead": ("dead", ())
    }  # fmt: skip
    assert worker_named(app, "old").silent_seconds == pytest.approx(100.001)
    answers = [app.is_alive(name) for name in ("fresh", "old", "dead", "unknown")]
    assert answers == [True, False, False, False]
