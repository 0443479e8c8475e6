"""Isolated handlers and the death of their worker: they go with it, and its lock with them."""

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.worker.isolation.slot import IsolatedSlot
from tests.support.children import Child
from tests.worker.isolation import isolated_jobs as jobs
from tests.worker.isolation.isolated_stage import (
    PATIENCE_SECONDS,
    end_of,
    gone_after_seconds,
    lives,
    pids_in,
)


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    return tmp_path / "sign"


def _works(lock: str, sign: str, kind: str, way: str) -> None:
    """A worker with a lock of its own and a handler that stays."""
    import fcntl
    import os

    from outlast import Outlast
    from outlast.worker.isolation.slot import IsolatedSlot
    from tests.worker.isolation import isolated_jobs
    from tests.worker.isolation.isolated_stage import attempt

    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    function = getattr(isolated_jobs, kind)
    with Outlast(lock + ".db") as app:
        more = {"way": way, "stays": True} if way else {}
        claimed, ctx = attempt(app, function, None, sign=sign, **more)
        IsolatedSlot(descriptor).run(function, claimed, ctx)


def is_free(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def free_after_seconds(lock: Path) -> float:
    began = time.monotonic()
    while not is_free(lock):
        assert time.monotonic() < began + PATIENCE_SECONDS, "still held"
        time.sleep(0.005)
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("stays", ""),
        ("holds_the_interpreter", ""),
        ("starts_another", "exec"),
        ("starts_another", "fork"),
    ],
)
def test_a_killed_worker_takes_its_handlers_along_within_a_second(
    tmp_path: Path, sign: Path, kind: str, way: str
) -> None:
    lock = tmp_path / "lock"
    with Child(_works, lock, sign, kind, way) as worker:
        pids = pids_in(sign)
        worker.kill()
        assert gone_after_seconds(*pids) < 1
        assert free_after_seconds(lock) < 1


def test_a_workers_lock_is_held_for_as_long_as_its_handler_lives(
    tmp_path: Path, sign: Path
) -> None:
    """Stopped, the keeper cannot see its worker die: nobody may run the task again yet."""
    lock = tmp_path / "lock"
    with Child(_works, lock, sign, "stays", "") as worker:
        handler, keeper = pids_in(sign)
        os.killpg(keeper, signal.SIGSTOP)
        try:
            worker.kill()
            assert lives(handler)
            assert not is_free(lock)
        finally:
            os.killpg(keeper, signal.SIGCONT)
        assert gone_after_seconds(handler, keeper) < 1
        assert free_after_seconds(lock) < 1


def test_a_handler_dies_with_its_keeper_by_the_kernels_hand(tmp_path: Path, sign: Path) -> None:
    """Nobody else could end it: its worker is stopped, and it holds its own interpreter."""
    with Child(_works, tmp_path / "lock", sign, "holds_the_interpreter", "") as worker:
        handler, keeper = pids_in(sign)
        worker.signal(signal.SIGSTOP)
        os.kill(keeper, signal.SIGKILL)
        assert gone_after_seconds(handler) < 1


def _watches_without_descriptors_of_processes() -> None:
    import os

    from outlast.host import processes
    from outlast.worker.isolation.keeper import handlers_end
    from tests.support.childside import say

    processes.process_descriptor = lambda pid: None
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    ended = handlers_end(pid, os.getppid())
    assert ended is not None
    status, peak_bytes = map(int, ended.split())
    say([os.waitstatus_to_exitcode(status), peak_bytes > 1 << 20])
    say(handlers_end(pid, worker_pid=os.getpid()))


def test_a_kernel_without_descriptors_of_processes_is_asked_now_and_then() -> None:
    with Child(_watches_without_descriptors_of_processes) as child:
        assert child.hear() == [7, True]
        assert child.hear() is None


def test_a_daemon_that_a_handler_forked_does_not_hold_the_workers_lock(
    tmp_path: Path, sign: Path
) -> None:
    lock = tmp_path / "lock"
    with Child(_works, lock, sign, "leaves_a_daemon", "") as worker:
        daemon, handler = pids_in(sign)
        try:
            worker.kill()
            assert gone_after_seconds(handler) < 1
            assert lives(daemon)
            assert free_after_seconds(lock) < 1
        finally:
            os.kill(daemon, signal.SIGKILL)


def test_a_worker_with_a_new_lock_starts_a_new_process(app: Outlast, tmp_path: Path) -> None:
    """A process under the old lock would leave the task of a dead worker free to be taken."""
    first, second = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("1", "2"))
    slot = IsolatedSlot(first)
    before = end_of(slot, app, jobs.own_pid).result
    slot.lock_descriptor = second
    assert end_of(slot, app, jobs.own_pid).result != before
    slot.close()
    os.close(first)
    os.close(second)
