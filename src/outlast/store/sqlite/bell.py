"""The bell at the write gate: who leaves it wakes the one process that has waited longest.

It is a FIFO in the wake folder. Those who wait stand in the kernel's row of its readers, and a ring
wakes the first of them alone. It is only ever a hint, and there may be none: whoever waits for a
ring sleeps for no longer than it is told to.
"""

import os
import select
from contextlib import suppress
from typing import Self

from outlast.store.sqlite.side_folder.side_folder import SideFolder

_UNREAD_RINGS = 4096


class Bell:
    """One process's end of it: a place in the row, and a hand at the rope."""

    def __init__(self, fifo: int) -> None:
        self._fifo = fifo
        self._row = select.epoll()

    @classmethod
    def of(cls, folder: SideFolder) -> Self | None:
        """The store's bell, made if need be; None where there can be none."""
        if not hasattr(select, "EPOLLEXCLUSIVE"):
            return None
        with suppress(OSError):
            fifo = folder.open_fifo(folder.bell)
            try:
                return cls(fifo)
            except BaseException:
                os.close(fifo)
                raise
        return None

    def stand_in_row(self) -> None:
        """Take the last place. The one of the last wait was kept: without a sleeper it is passed
        over, and giving it up under the gate would keep others waiting."""
        with suppress(OSError):
            with suppress(FileNotFoundError):
                self._row.unregister(self._fifo)
            self._row.register(self._fifo, select.EPOLLIN | select.EPOLLEXCLUSIVE)

    def wait(self, timeout_seconds: float) -> bool:
        """Sleep until it is our turn to be woken; False when the time is up."""
        if not self._row.poll(timeout_seconds, 1):
            return False
        with suppress(OSError):
            # Another may have read it meanwhile, and is awake as well.
            os.read(self._fifo, _UNREAD_RINGS)
        return True

    def ring(self) -> None:
        """Wake the first in the row; if there is none, whoever comes next looks once too often."""
        with suppress(OSError):
            os.write(self._fifo, b"!")

    def close(self) -> None:
        """Let go of it; in a forked child the parent's place in the row stays."""
        self._row.close()
        os.close(self._fifo)
