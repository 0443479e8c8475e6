"""A worker's beat: what it carries, that it goes on for as long as it lives, what it stands."""

import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Settings, StoreError
from outlast.store.ops.workers import Workers
from outlast.tasks.context import Context
from tests.crash.workers.working import (
    PATIENCE_SECONDS,
    WorkerChild,
    looking,
    named,
    status_is,
    until,
    write_lock_held,
)
from tests.store.hand import Hand

BRISK = {"heartbeat_interval_seconds": 0.05}


@pytest.mark.proves("HB-01")
@pytest.mark.parametrize("kind", [None, "held"], ids=["idle", "busy"])
def test_a_worker_beats_for_as_long_as_it_lives(database: Path, kind: str | None) -> None:
    with Outlast(database) as app:
        app.open()
        if kind is not None:
            app.enqueue(kind, id="t")
    with WorkerChild(database, settings=BRISK) as worker, looking(database) as app:
        if kind is not None:
            worker.begun("t")
        _times_of_beats(app, 5)
        assert named(app, "w").state == "alive"
        worker.kill()
        assert named(app, "w").state == "dead"


@pytest.mark.proves("HB-03", "HB-04")
def test_many_beats_of_a_worker_are_one_row_that_tells_what_it_is_at(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("held", id="t")
        app.enqueue("parked", id="nobody's")
    with (
        WorkerChild(database, settings=BRISK) as worker,
        looking(database) as app,
        closing(Hand(database)) as hand,
    ):
        worker.begun("t")
        untouched = hand.task("nobody's")
        times = _times_of_beats(app, 20)
        until(lambda: named(app, "w").progress, "no beat carries the progress")
        info = named(app, "w")
        assert (info.task_ids, info.pid) == (("t",), worker.pid)
        assert info.progress == [{"task_id": "t", "done": 1, "total": 2, "note": None}]
        ((worker_id, task_id, beat_at),) = hand.rows(
            "SELECT worker_id, task_id, timestamp FROM worker_heartbeats"
        )
        assert (worker_id, task_id) == ("w", "t")
        assert beat_at >= min(times).strftime("%Y-%m-%dT%H:%M:%S")
        assert hand.value("SELECT count(*) FROM workers") == 1
        assert hand.task("nobody's") == untouched


def _times_of_beats(app: Outlast, count: int) -> set[datetime]:
    times: set[datetime] = set()

    def are_enough() -> bool:
        times.add(named(app, "w").beat_at)
        return len(times) >= count

    until(are_enough, "it does not beat")
    return times


@pytest.mark.proves("HB-11", "HB-13", "HB-14")
def test_a_worker_goes_on_when_nobody_can_write_for_longer_than_a_beat_may_take(
    database: Path,
) -> None:
    """Guards the limit of a beat: each try gives up by itself, the first one too, long before the
    store's own patience of half a minute ends."""
    interval_seconds = 1.0
    with Outlast(database) as app:
        app.enqueue("held", id="t")
    settings = {"heartbeat_interval_seconds": interval_seconds}
    with WorkerChild(database, settings=settings) as worker, looking(database) as app:
        worker.begun("t")
        with write_lock_held(database):
            before = named(app, "w").beat_at
            until(lambda: len(_failed_beats(worker)) >= 3, "no beat gives up")
            worker.let_go("t")
            worker.sign("returned", "t")
            assert named(app, "w").beat_at == before
            assert named(app, "w").state in ("alive", "stale")
        # Later tries know that the lock was held all along, and give up at once in any case.
        assert _first_wait_seconds(worker) < Settings().write_timeout_seconds / 3
        until(lambda: named(app, "w").beat_at > before, "it does not beat again")
        status_is(app, "t", "completed")
        assert (app.get("t").attempt, app.get("t").recovery_count) == (1, 0)
        worker.signal(signal.SIGTERM)
        assert worker.ended()["completed"] == 1


def _failed_beats(worker: WorkerChild) -> list[float]:
    return [at for at, text in worker.troubles() if "a beat failed and is tried again" in text]


def _first_wait_seconds(worker: WorkerChild) -> float:
    """How long the store process had met the lock, by its clock, when its first beat gave up."""
    (told, *_) = [text for _, text in worker.troubles() if "a beat failed" in text]
    found = re.search(r"has kept others from writing for (\d+\.\d) s", told)
    assert found is not None, told
    return float(found[1])


def _gone_in_no_time() -> None:
    pass


@pytest.mark.proves("HB-13")
@pytest.mark.parametrize(
    ("settings", "limit_seconds"),
    [
        ({"heartbeat_interval_seconds": 1.0}, 1 / 3),
        ({"heartbeat_interval_seconds": 30.0}, 5),
        ({"heartbeat_interval_seconds": 30.0, "heartbeat_timeout_seconds": 2.0}, 2),
        ({"heartbeat_interval_seconds": 30.0, "write_timeout_seconds": 1.5}, 1.5),
    ],
)
def test_a_store_process_is_told_to_wait_no_longer_than_a_beat_may_take(
    make_app: Callable[..., Outlast], settings: dict[str, float], limit_seconds: float
) -> None:
    """Guards the limit itself, on any machine: what the store process opens the store with."""
    app = make_app(**settings)
    app.task(_gone_in_no_time)
    session = app._handle.serve()
    terms = app.worker()._terms(session, ("_gone_in_no_time",), until_empty=False)
    assert terms.settings["write_timeout_seconds"] == pytest.approx(limit_seconds, abs=0.001)


class Beats:
    """Stands in for the writer of beats: refuses as often as it is told, and keeps the times."""

    def __init__(self, refusals: float) -> None:
        self._refusals = refusals
        self.at: list[float] = []
        self.third = threading.Event()

    def wrapped(self, beat: Callable[..., list[bool]]) -> Callable[..., list[bool]]:
        def tried(store: Any, *arguments: Any, **options: Any) -> list[bool]:
            self.at.append(time.monotonic())
            if len(self.at) >= 3:
                self.third.set()
            if len(self.at) <= self._refusals:
                raise StoreError("no beat today; try again")
            return beat(store, *arguments, **options)

        return tried


@pytest.fixture
def beats_refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Beats]:
    def refuse(refusals: float) -> Beats:
        beats = Beats(refusals)
        monkeypatch.setattr(Workers, "beat", beats.wrapped(Workers.beat))
        return beats

    return refuse


@pytest.mark.proves("HB-11")
def test_a_beat_that_always_fails_ends_neither_worker_nor_handler(
    app: Outlast, beats_refused: Callable[[float], Beats]
) -> None:
    beats = beats_refused(float("inf"))

    @app.task
    def patient(ctx: Context) -> bool:
        assert beats.third.wait(PATIENCE_SECONDS)
        return ctx.cancelled

    task = patient.enqueue()
    assert app.worker().run(until_empty=True).completed == 1
    assert app.get(task.id).result is False


@pytest.mark.proves("HB-12")
def test_a_beat_that_fails_twice_succeeds_the_third_time_within_one_interval(
    make_app: Callable[..., Outlast], beats_refused: Callable[[float], Beats]
) -> None:
    interval_seconds = 20
    app = make_app(heartbeat_interval_seconds=interval_seconds)
    beats = beats_refused(2)

    @app.task
    def patient() -> None:
        assert beats.third.wait(PATIENCE_SECONDS)

    patient.enqueue()
    began_at = time.monotonic()
    assert app.worker().run(until_empty=True).completed == 1
    first, second, third = beats.at[:3]
    assert third - began_at < interval_seconds
    assert 0.04 < second - first < third - second, "each pause is longer than the last"
