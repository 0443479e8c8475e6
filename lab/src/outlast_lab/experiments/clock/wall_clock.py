"""A wall clock for processes of the laboratory: each look at it goes by a file, which can be set.

The file holds two numbers, and the clock shows `rate * host + offset` nanoseconds: it runs at rate
1 and stands still at rate 0. Processes map the file, so that a step is seen by their next look.

A process follows the file from its start: a folder with a `sitecustomize.py` stands first in its
PYTHONPATH and replaces the functions of the module `time` before anything can import them. Outlast
reads the wall clock by no others, which the linter sees to (`datetime` and `time.localtime` are
compiled and ask the kernel). Stamps on files, and SQLite's own `now`, stay the host's.

This file is run by its path there: it imports the standard library alone.
"""

import mmap
import os
import struct
import time
from pathlib import Path

_WORDS = struct.Struct("qq")
_NANOSECONDS = 1_000_000_000
_START_UP = "LAB_START_UP_FILE"


class WallClock:
    """The director's side: where it is set, and what makes a process follow it."""

    def __init__(
        self, folder: Path, *, ahead_seconds: float = 0, stands_at: int | None = None
    ) -> None:
        self._folder = folder.absolute() / f"wall clock {time.monotonic_ns()}"
        self._folder.mkdir()
        self._ahead_seconds = ahead_seconds
        self._words = self._folder / "words"
        rate, shown = (1, ahead_seconds) if stands_at is None else (0, stands_at)
        self._words.write_bytes(_WORDS.pack(rate, round(shown * _NANOSECONDS)))
        program = f"import runpy\nrunpy.run_path({__file__!r})['follow']({str(self._words)!r})\n"
        self._start_up.write_text(program, encoding="utf-8")

    def step(self, ahead_seconds: float) -> None:
        """Set it to so many seconds ahead of the host's, in the middle of whatever runs by it."""
        self._ahead_seconds = ahead_seconds
        offset = struct.pack("q", round(ahead_seconds * _NANOSECONDS))
        # In place and never truncated: a process that looks at a mapped file while it is empty
        # gets SIGBUS.
        with open(self._words, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), offset, _WORDS.size - len(offset))

    def jump(self, seconds: float) -> None:
        """Set it forward, as a suspend does: the monotonic clock goes on as it did."""
        self.step(self._ahead_seconds + seconds)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with that shall go by this clock, and all below it."""
        path = filter(None, [str(self._folder), os.environ.get("PYTHONPATH")])
        return {"PYTHONPATH": os.pathsep.join(path), _START_UP: str(self._start_up)}

    @property
    def _start_up(self) -> Path:
        return self._folder / "sitecustomize.py"


def follow(path: str) -> None:
    """Let this process's wall clock be the one in the file."""
    with open(path, "rb") as file:
        words = mmap.mmap(file.fileno(), _WORDS.size, prot=mmap.PROT_READ)
    host_ns, get, get_ns = time.time_ns, time.clock_gettime, time.clock_gettime_ns

    def time_ns() -> int:
        rate, offset_ns = _WORDS.unpack(words)
        return int(rate * host_ns() + offset_ns)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / _NANOSECONDS
    time.clock_gettime = lambda clock: (
        time_ns() / _NANOSECONDS if clock == time.CLOCK_REALTIME else get(clock)
    )
    time.clock_gettime_ns = lambda clock: (
        time_ns() if clock == time.CLOCK_REALTIME else get_ns(clock)
    )


def reach_second_processes() -> None:
    """Let the process that a worker starts for its transactions follow the clock as well.

    It is started with `-I -S` and so without start-up files; its program is made to run ours.
    """
    start_up = os.environ.get(_START_UP)
    if start_up is not None:
        from outlast.worker import store_link

        ours = f"import runpy; runpy.run_path({start_up!r}); "
        store_link.PROGRAM = ours + store_link.PROGRAM
