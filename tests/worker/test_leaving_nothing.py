"""After a run nothing of it is left: no thread, no process, no descriptor."""

import asyncio
import os
import subprocess
import threading
from typing import Any

import pytest

from outlast import Outlast
from tests.worker.conftest import MakeApp
from tests.worker.shift import Shift, children, descriptors, eventually, own_threads


def register(app: Outlast) -> None:
    @app.task
    def plain(n: int) -> int:
        return n

    @app.task
    async def waits(n: int) -> int:
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: n)

    @app.task(max_retries=0, timeout=0.1)
    async def too_long(n: int) -> None:
        await asyncio.sleep(60)


def fill(app: Outlast) -> None:
    for kind in ("plain", "waits", "too_long"):
        app.enqueue_many(kind, [{"n": n} for n in range(5)])


def around() -> tuple[set[str], set[int], list[str]]:
    """Threads, processes, and descriptors but those of the database, which readers share, and its
    watch of folders, which begins when it has been used for a while."""
    threads = {one.name for one in threading.enumerate()}
    kinds = [os.path.basename(one) for one in descriptors().values()]
    of_the_store = ("work.db", "work.db-wal", "work.db-shm", "anon_inode:inotify", "inotify")
    others = [one for one in kinds if one not in of_the_store]
    return threads, children(), sorted(_without_number(one) for one in others)


def after_one_run(app: Outlast) -> tuple[set[str], set[int], list[str]]:
    """The same once everything was used that a store keeps open until it is closed."""
    register(app)
    fill(app)
    app.worker().run(until_empty=True)
    return around()


def _without_number(name: str) -> str:
    """Every pipe and socket has a number of its own."""
    return name.partition("[")[0]


@pytest.mark.slow
@pytest.mark.proves("HB-16")
@pytest.mark.parametrize("store_process", ["process", "thread"])
def test_nothing_is_left_after_a_run(
    make_live: MakeApp, make_app: MakeApp, store_process: str
) -> None:
    app = make_live() if store_process == "process" else make_app()
    before = after_one_run(app)
    for _ in range(2):
        fill(app)
        tally = app.worker().run(until_empty=True)
        assert (tally.completed, tally.failed) == (10, 5)
        assert around() == before
    with Shift(app.worker()) as shift:
        app.enqueue("plain", {"n": 1}).wait(30)
        shift.worker.stop(at_once=True)
        shift.ended()
    assert around() == before


@pytest.mark.proves("HB-16")
def test_a_store_process_that_could_not_start_at_first_leaves_nothing_and_the_work_is_done(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    before = after_one_run(app)
    failures = fail_the_start_of("outlast-store-process", 2, monkeypatch)
    app.enqueue("plain", {"n": 1})
    assert app.worker().run(until_empty=True).completed == 1
    assert failures == [1, 2]
    assert around() == before


@pytest.mark.proves("HB-16")
def test_a_worker_whose_store_process_never_starts_can_be_stopped_and_leaves_nothing(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    before = after_one_run(app)
    failures = fail_the_start_of("outlast-store-process", 10_000, monkeypatch)
    with Shift(app.worker()) as shift:
        eventually(lambda: len(failures) > 1)
        shift.worker.stop()
        assert shift.ended(20).completed == 0
    assert around() == before
    assert own_threads() <= {"outlast-maintenance", "outlast-commit"}


@pytest.mark.proves("HB-16")
def test_a_store_process_that_could_not_start_leaves_nothing(
    live: Outlast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = after_one_run(live)
    real, tries = subprocess.Popen, []

    def popen(*arguments: Any, **options: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    live.enqueue("plain", {"n": 1})
    assert live.worker().run(until_empty=True).completed == 1
    assert len(tries) == 2
    assert "no store process could be started" in caplog.text
    assert around() == before


def test_with_fewer_threads_than_wished_for_the_work_is_done_all_the_same(
    live: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(live)
    failures = fail_the_start_of("outlast-2", 10_000, monkeypatch)
    live.enqueue_many("plain", [{"n": n} for n in range(20)])
    assert live.worker().run(until_empty=True).completed == 20
    assert failures


def fail_the_start_of(name: str, times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Threads of that name cannot be started so many times; tells of each try."""
    real, failures = threading.Thread.start, list[int]()

    def start(thread: threading.Thread) -> None:
        if thread.name == name and len(failures) < times:
            failures.append(len(failures) + 1)
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return failures
