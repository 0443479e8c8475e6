"""How long something took, and how much of that was the machine's own delay."""

import os
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from outlast.host import proc_files


class Stopwatch:
    """Times what a process is asked to do, apart from how long it only waited for a processor.

    A promise in seconds is about Outlast and not about a machine with too much else to do: the
    kernel says of each thread how long it could have run and was not let.
    """

    def __init__(self, pid: int) -> None:
        self.took_seconds = 0.0
        self.late_seconds = 0.0
        self._pid = pid

    def __enter__(self) -> Self:
        """It runs."""
        self._late_ns = self._delay_ns()
        self._begun_at = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """It stands, and shows."""
        self.took_seconds = time.monotonic() - self._begun_at
        self.late_seconds = (self._delay_ns() - self._late_ns) / 1e9

    @property
    def own_seconds(self) -> float:
        """What was not the machine's delay."""
        return self.took_seconds - self.late_seconds

    def _delay_ns(self) -> int:
        """The delay so far of the process that is asked, and of the thread that waits for it."""
        threads: list[str] = []
        with suppress(OSError):
            threads = [
                f"/proc/{self._pid}/task/{one}" for one in os.listdir(f"/proc/{self._pid}/task")
            ]
        return sum(_delay_of_ns(thread) for thread in (*threads, "/proc/thread-self"))


def _delay_of_ns(thread: str) -> int:
    """Nothing where the kernel does not keep count."""
    fields = (proc_files.read_text(f"{thread}/schedstat") or "").split()
    return int(fields[1]) if len(fields) > 1 else 0
