"""Work in forks of a process that has no threads and no store open."""

import gc
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from outlast.app.process_hooks import backend
from outlast.host import processes

_LONGEST_BYTES = 1 << 14


class Ended(NamedTuple):
    """How a fork ended: its wait status, and the traceback of what it raised."""

    status: int
    error: str | None


def ready_to_fork() -> None:
    """Import the engine and leave what is there to the forks as it is; nothing is opened."""
    backend()
    # A collector that went through what was inherited would copy it page by page.
    gc.freeze()


def in_a_fork(act: Callable[[], object], seconds: int) -> Ended:
    """Do something in a fork, which ends by SIGKILL when it is done, or by SIGALRM in time."""
    reading, writing = os.pipe()
    parent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            processes.die_with_parent(parent_pid)
            signal.alarm(seconds)
            act()
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-_LONGEST_BYTES:])
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    try:
        status = os.waitpid(pid, 0)[1]
        # Whoever the fork has left behind may hold the other end.
        os.set_blocking(reading, False)
        told = b""
        with suppress(BlockingIOError):
            told = os.read(reading, _LONGEST_BYTES)
    finally:
        os.close(reading)
    return Ended(status, told.decode(errors="replace") or None)
