"""What runs inside the processes that experiments stop, shift and kill: one call after another.

A company is a process that has imported everything and opened nothing. It forks an actor whenever
it is sent one end of a socket; an actor then does what it hears there. So a real process with its
own pid, locks and incarnation costs some milliseconds instead of the start of an interpreter.
"""

import logging
import mmap
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from outlast import probes
from outlast.app.app import Outlast
from outlast.clock import Clock, Instant, SystemClock
from outlast.host import proc_files, processes
from outlast.settings import Settings
from outlast_lab.experiments.clock.wall_clock import reach_second_processes
from outlast_lab.judge.foreign_reader import Rows, copied_stored
from outlast_lab.record.history import ANSWERED, LEFT, Line, LineFile
from outlast_lab.record.recorder import Witness
from outlast_lab.stage.forks import ready_to_fork
from outlast_lab.stage.wire import Wire, serve

LAST_PID = "/proc/sys/kernel/ns_last_pid"
AT_THE_CLOCK = "at the clock"

_MOMENT = struct.Struct("<qq")


class SharedClock:
    """A clock in a file, so that all actors see the same time and one director moves it."""

    def __init__(self, path: Path | str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _MOMENT.size)

    @classmethod
    def make(cls, path: Path) -> "SharedClock":
        """A new one, at the moment that all experiments begin with."""
        path.write_bytes(_MOMENT.pack(1_800_000_000_000, 1_000_000))
        return cls(path)

    def now(self) -> Instant:
        """The moment it was last moved to."""
        return Instant(*_MOMENT.unpack(self._map[:]))

    def advance(self, seconds: float) -> None:
        """Let time pass for everybody."""
        utc_ms, mono_ms = self.now()
        ms = round(seconds * 1000)
        self._map[:] = _MOMENT.pack(utc_ms + ms, mono_ms + ms)


class _WatchedClock:
    """Lets the actor be stopped between its look at the clock and whatever it does with it."""

    def __init__(self, clock: Clock, looked: Callable[[str], None]) -> None:
        self._clock = clock
        self._looked = looked

    def now(self) -> Instant:
        """The present moment, as it was before the stop."""
        moment = self._clock.now()
        self._looked(AT_THE_CLOCK)
        return moment


class Actor:
    """One process's part: an `Outlast`, its leases, and what it was told to stop at."""

    def __init__(self) -> None:
        self._leases: list[Any] = []
        self._stops_at: tuple[str, int] | None = None
        self._passed: list[str] = []
        self._last: list[Any] = []
        self._content: dict[str, Rows] = {}
        self._witness: Witness

    # Outlast

    def opens(
        self, path: str, worker: str, record: str, settings: dict[str, Any], clock: str | None
    ) -> list[Any]:
        """Open a store to serve, with every call on the record."""
        shared = None if clock is None else SharedClock(clock)
        host_clock = _host_clock()
        file = LineFile(record)

        def write(line: Line) -> None:
            if shared is None:
                seconds = host_clock()
                times = [seconds] if line[0] == LEFT else [seconds, int(seconds * 1000)]
                line[-len(times) :] = times
            if line[0] == ANSWERED:
                self._last = line[3:5]
            file.write(line)

        watched = _WatchedClock(shared or SystemClock(), self._passes)
        app = Outlast(path, settings=Settings(**settings), clock=watched)
        self._witness = Witness(app, worker, write, shared)
        self._witness.open()
        return self._last

    def logs(self, path: str) -> None:
        """Have what the library warns of written into a file as well, at once."""
        logging.getLogger("outlast").addHandler(logging.FileHandler(path, encoding="utf-8"))

    def hands(self, verb: str, options: dict[str, Any]) -> list[list[Any]]:
        """Claim or prefetch: the leases, each with the number it is known by here."""
        first = len(self._leases)
        self._leases += getattr(self._witness, verb)(**options)
        if self._last[0] != "done":
            raise RuntimeError(f"{verb}: {self._last[1]}")
        return [
            [number, one.task_id, one.token, one.attempt]
            for number, one in enumerate(self._leases[first:], first)
        ]

    def does(self, verb: str, *arguments: Any, **options: Any) -> list[Any]:
        """Any verb of the witness: outcome and value as the record has them."""
        getattr(self._witness, verb)(*arguments, **options)
        return self._last

    def writes(self, verb: str, number: int, *arguments: Any, **options: Any) -> list[Any]:
        """Any verb of a lease: outcome and value as the record has them."""
        lease = self._leases[number]
        if verb == "complete_many":
            return self.does(verb, [(lease, *arguments)])
        return self.does(verb, lease, *arguments, **options)

    def writes_with_the_newest(self, number: int, result: Any) -> list[Any]:
        """Complete a lease and the one that was handed out last in one call."""
        pairs = [(self._leases[number], result), (self._leases[-1], "its own")]
        return self.does("complete_many", pairs)

    def looks(self, task_id: str) -> dict[str, Any]:
        """A task as an object sees it that only looks."""
        task = self._witness.app.get(task_id)
        return {
            "status": task.status.value,
            "attempt": task.attempt,
            "worker": task.worker,
            "result": task.result,
            "recovery_count": task.recovery_count,
        }

    def sees(self, worker: str) -> dict[str, Any]:
        """The newest worker of a name, as the store tells of it."""
        found = [one for one in self._witness.app.workers() if one.name == worker]
        if not found:
            return {}
        return {"state": found[0].state, "silent_seconds": found[0].silent_seconds}

    def opens_to_look(self, path: str, task_id: str) -> str:
        """A task's status, by an object that was made for this and opens nothing to serve."""
        app = Outlast(path)
        try:
            return app.get(task_id).status.value
        finally:
            app.close()

    def works(self, path: str, name: str, settings: dict[str, Any], options: Any) -> None:
        """Be a real worker, with the laboratory's handlers, until the end."""
        from outlast_lab.stage.handlers import FUNCTIONS

        reach_second_processes()
        app = Outlast(path, settings=Settings(**settings))
        for function in FUNCTIONS:
            app.functions.register(function)
        app.worker(name=name, **options).run()
        app.close()

    # Being stopped

    def stops(self, point: str, nth: int = 1) -> None:
        """Stop yourself at the nth passing of a point: a probe, or a look at the clock."""
        self._stops_at = (point, nth)
        self._passed.clear()
        probes.arm(self._passes)

    def _passes(self, point: str) -> None:
        if self._stops_at is None:
            return
        self._passed.append(point)
        wanted, nth = self._stops_at
        if sum(_matches(one, wanted) for one in self._passed) == nth and _matches(point, wanted):
            self._stops_at = None
            # To this very thread, the committer thread perhaps: a signal to the process is taken by
            # any of its threads, and this one would pass the point before it stands still.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    # Time

    def clocks(self) -> dict[str, float]:
        """What the clocks of this process show."""
        return _clocks()

    # Reading with another tool; only for actors that have opened nothing

    def changes(self, path: str) -> list[list[Any]]:
        """The rows that are not as they were when this was last asked: table, number, columns."""
        before, self._content = self._content, copied_stored(Path(path), with_content=True).content
        return [
            [table, row]
            for table in sorted(before.keys() | self._content.keys())
            for row in _differences(before.get(table, []), self._content.get(table, []))
        ]


def _matches(point: str, wanted: str) -> bool:
    return point == wanted or (wanted.startswith("*.") and point.endswith(wanted[1:]))


def _differences(before: Rows, after: Rows) -> list[Any]:
    old, new = set(map(tuple, before)), set(map(tuple, after))
    return [list(map(repr, row)) for row in sorted(old ^ new, key=repr)]


def _clocks() -> dict[str, float]:
    return {
        "wall": SystemClock().now().utc_ms / 1000,
        "monotonic": time.clock_gettime(time.CLOCK_MONOTONIC),
        "boottime": time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)),
        "mono_ms": SystemClock().now().mono_ms,
    }


def _host_clock() -> Callable[[], float]:
    """The monotonic clock of the host, also inside a time namespace.

    Worked out here and not asked of the library, for it is the library that is on trial.
    """
    offset_seconds = 0.0
    for line in (proc_files.read_text("/proc/self/timens_offsets") or "").splitlines():
        name, seconds, nanoseconds = line.split()
        if name == "monotonic":
            offset_seconds = int(seconds) + int(nanoseconds) / 1e9
    return lambda: time.monotonic() - offset_seconds


# The company's side


def company(wire: Wire) -> None:
    """Fork an actor for each socket that comes, until nobody is there to send one."""
    ready_to_fork()
    # Nobody waits for actors here: the director sees them end by its own means.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    verbs: dict[str, Callable[..., Any]] = {"clocks": _clocks, "fork": partial(_fork, wire)}
    serve(wire, verbs.__getitem__)


def _fork(control: Wire, descriptor: int, wanted_pid: int | None) -> int:
    company_pid = os.getpid()
    if wanted_pid is not None:
        # Where that is not allowed, the director sees that another pid came.
        with suppress(OSError):
            Path(LAST_PID).write_text(str(wanted_pid - 1), encoding="ascii")
    pid = os.fork()
    if pid == 0:
        try:
            processes.die_with_parent(company_pid)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            serve(Wire(socket.socket(fileno=descriptor)), partial(getattr, Actor()))
        finally:
            os._exit(0)
    os.close(descriptor)
    return pid
