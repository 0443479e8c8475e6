"""A real worker with isolated handlers: what becomes of their tasks."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast, Status
from tests.support.children import Child
from tests.worker.isolation import isolated_jobs as jobs
from tests.worker.isolation.isolated_stage import (
    PATIENCE_SECONDS,
    gone_after_seconds,
    lives,
    pids_in,
)


@pytest.fixture
def app(database: Path) -> Iterator[Outlast]:
    """On the clock of the system: processes end when they end."""
    with Outlast(database) as opened:
        for function in (jobs.add, jobs.segfaults, jobs.stays):
            opened.functions.register(function)
        yield opened


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    return tmp_path / "sign"


@pytest.mark.slow
def test_a_segfault_is_recorded_on_its_attempt_and_hurts_no_other_task(app: Outlast) -> None:
    crashed = app.enqueue("segfaults", max_retries=0)
    others = [app.enqueue("add", {"a": n, "b": 1}) for n in range(10)]
    tally = app.worker(concurrency=2).run(until_empty=True)
    assert (tally.completed, tally.failed) == (10, 1)
    assert [app.get(task.id).result for task in others] == list(range(1, 11))
    ended = app.history(crashed.id)[-1]
    assert ended.to_status is Status.FAILED
    assert ended.exit_signal == signal.SIGSEGV
    assert ended.peak_memory_bytes is not None
    assert ended.peak_memory_bytes > jobs.MIB
    assert ended.error is not None
    assert "was killed by SIGSEGV" in ended.error


@pytest.mark.slow
def test_a_cancelled_task_loses_its_process(app: Outlast, sign: Path) -> None:
    task = app.enqueue("stays", {"sign": str(sign)})
    worker = app.worker(concurrency=1)
    thread = threading.Thread(target=worker.run, kwargs={"until_empty": True})
    thread.start()
    pids = pids_in(sign)
    app.cancel(task.id)
    gone_after_seconds(pids[0])
    worker.stop()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert app.get(task.id).status is Status.CANCELLED
    gone_after_seconds(*pids)


def _works(path: str, sign: str) -> None:
    from outlast import Outlast
    from tests.worker.isolation import isolated_jobs

    app = Outlast(path)
    app.functions.register(isolated_jobs.stays)
    app.enqueue("stays", {"sign": sign}, id="t1")
    app.worker(concurrency=1).run()


@pytest.mark.slow
def test_a_task_is_not_handed_out_again_before_its_handler_is_dead(
    app: Outlast, sign: Path
) -> None:
    """Its worker is dead and its keeper stopped: only the handler still has the worker's lock."""
    with Child(_works, app.path, sign) as worker:
        handler, keeper = pids_in(sign)
        os.killpg(keeper, signal.SIGSTOP)
        try:
            worker.kill()
            assert app.claim("w2") == []
            assert lives(handler)
        finally:
            os.killpg(keeper, signal.SIGCONT)
        gone_after_seconds(handler, keeper)
        (lease,) = app.claim("w2", wait=PATIENCE_SECONDS)
        assert (lease.task_id, lease.attempt) == ("t1", 2)
        assert app.get("t1").recovery_count == 1
