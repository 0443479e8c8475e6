"""Handlers for the tests of isolation that use much memory, or may use little."""

import ctypes
import threading
from pathlib import Path

from tests.worker.isolation.isolated_jobs import MIB, app, isolated

limited = app.task(isolation="process", memory_limit="256MiB")


@isolated
def segfaults_with(mib: int) -> None:
    held = b"x" * (mib * MIB)
    ctypes.string_at(0 * len(held))


@isolated
def uses(mib: int) -> None:
    held = b"x" * (mib * MIB)
    assert held


@limited
def hogs() -> None:
    held = []
    while True:
        held.append(b"x" * MIB)


@app.task(isolation="process", memory_limit=1)
def has_nothing() -> int:
    return len(b"x" * (64 * MIB))


@limited
def has_many_threads() -> int:
    """Threads reserve far more addresses than they use memory."""
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    done.set()
    for thread in threads:
        thread.join()
    return len(threads)


@isolated
def own_oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
