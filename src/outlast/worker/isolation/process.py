"""The worker's side of an isolated handler's process: starting it, hearing it, ending it."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from outlast.domain.signals import signal_name
from outlast.host import memory
from outlast.worker.isolation import keeper
from outlast.worker.isolation.messages import FromHandler, ToHandler
from outlast.worker.messages import Wire

REPORT_SECONDS = 2.0
REAP_SECONDS = 10.0

_MIB = 1 << 20


class Death(NamedTuple):
    """How a handler's process ended, and the most memory it had."""

    status: int | None
    signal: int | None
    peak_memory_bytes: int | None

    def in_words(self, limit_bytes: int | None, why: str | None) -> str:
        """What happened to the process, as the end of a sentence about it."""
        facts = []
        if limit_bytes is not None:
            facts.append(f"memory limit {limit_bytes // _MIB} MiB")
        if self.peak_memory_bytes is not None:
            facts.append(f"peak memory {self.peak_memory_bytes // _MIB} MiB")
        about = f" ({', '.join(facts)})" if facts else ""
        if why is not None and self.signal == signal.SIGKILL:
            return f"was killed: {why}{about}"
        if self.signal is not None:
            hint = ", perhaps for want of memory" if self.signal == signal.SIGKILL else ""
            return f"was killed by {signal_name(self.signal)}{hint}{about}"
        return f"exited with status {self.status}{about}"


class Over(Exception):
    """The handler's process has ended, or will say nothing more."""


class IsolatedProcess:
    """A keeper with the handler's process below it, in a session of their own.

    One thread talks to it; any thread may kill it.
    """

    def __init__(self, lock_descriptor: int | None) -> None:
        self._mutex = threading.RLock()
        self._is_reaped = False
        self._is_killed = False
        self._is_over = False
        self._arrived: deque[FromHandler] = deque()
        self._reported = b""
        self._handler_pid: int | None = None
        self._peak_bytes: int | None = None
        self._socket, theirs = socket.socketpair()
        self._report, report_theirs = socket.socketpair()
        self._wire = Wire(self._socket, FromHandler)
        with theirs, report_theirs:
            passed = [theirs.fileno(), report_theirs.fileno()]
            lock = -1 if lock_descriptor is None else lock_descriptor
            try:
                self._keeper = subprocess.Popen(
                    [*_interpreter(), *map(str, [*passed, lock, os.getpid()])],
                    pass_fds=passed if lock_descriptor is None else [*passed, lock_descriptor],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                self._hang_up()
                raise
        with suppress(OSError):
            self._report.sendall(keeper.path_message(sys.path))

    @property
    def handler_pid(self) -> int | None:
        """The process the handler runs in, once it has said so."""
        return self._handler_pid

    def send(self, message: ToHandler) -> None:
        """Write to the handler; what it is too slow to read goes on while we listen."""
        self._wire.send(message)

    def hear(self, until: float | None) -> FromHandler:
        """The next message; Over when there will be none, TimeoutError when it takes too long."""
        while not self._arrived:
            if self._is_over:
                raise Over
            self._look(until)
        return self._arrived.popleft()

    def _look(self, until: float | None) -> None:
        """Wait for something to happen, and take it in."""
        poll = select.poll()
        unsent = select.POLLOUT if self._wire.has_unsent else 0
        poll.register(self._wire.fileno(), select.POLLIN | unsent)
        poll.register(self._report, select.POLLIN)
        left_ms = None if until is None else max(0.0, until - time.monotonic()) * 1000
        happened = dict(poll.poll(left_ms))
        if not happened:
            raise TimeoutError
        self._wire.flush()
        # The report comes last of all, so what it follows on the wire is there already.
        is_reported = self._report.fileno() in happened
        self._take_in()
        if is_reported:
            self._reported += self._read_report()
            self._is_over = True

    def _take_in(self) -> None:
        try:
            for message in self._wire.messages():
                self._handler_pid = message.pid or self._handler_pid
                self._arrived.append(message)
        except (EOFError, OSError, msgspec.MsgspecError):
            # Whoever writes what cannot be read is not listened to any more.
            self._is_over = True

    def _read_report(self) -> bytes:
        try:
            return self._report.recv(1 << 10)
        except OSError:
            return b""

    def kill(self) -> None:
        """End the handler and everything it started, at once; from any thread."""
        with self._mutex:
            if self._is_reaped:
                return
            self._is_killed = True
            if self._handler_pid is not None and self._peak_bytes is None:
                self._peak_bytes = memory.peak_memory_bytes(self._handler_pid)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._keeper.pid, signal.SIGKILL)

    def leave(self, within_seconds: float) -> None:
        """Hang up and let the process end by itself, for some time; then it is killed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._await_report(within_seconds)
        self.reap()

    def reap(self) -> Death:
        """See to it that the whole group is gone, and tell how the handler's process ended."""
        if not self._is_killed:
            self._await_report(REPORT_SECONDS)
        with self._mutex:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._keeper.wait(REAP_SECONDS)
            self._is_reaped = True
        self._hang_up()
        return self._death()

    def _await_report(self, within_seconds: float) -> None:
        poll = select.poll()
        poll.register(self._report, select.POLLIN)
        if not self._reported and poll.poll(within_seconds * 1000):
            self._reported = self._read_report()

    def _death(self) -> Death:
        """By the keeper's word; without one the keeper died too, and of the same cause."""
        if self._reported.endswith(b"\n"):
            status, peak_bytes = map(int, self._reported.split())
            code = os.waitstatus_to_exitcode(status)
        else:
            code, peak_bytes = self._keeper.returncode or -signal.SIGKILL, 0
        peak = peak_bytes or self._peak_bytes
        return Death(code if code >= 0 else None, -code if code < 0 else None, peak)

    def _hang_up(self) -> None:
        self._wire.close()
        self._report.close()


def _interpreter() -> Iterator[str]:
    """This interpreter, told what it was told, and the keeper's file as its program."""
    if not sys.executable:
        raise FileNotFoundError("this Python does not know its own executable")
    yield sys.executable
    flags = sys.flags
    yield from ["-I"] if flags.isolated else ["-P"]
    yield from ["-S"] if flags.no_site else []
    yield from ["-B"] if flags.dont_write_bytecode else []
    yield from ["-" + "O" * flags.optimize] if flags.optimize else []
    yield from ["-X", "utf8"] if flags.utf8_mode else []
    yield from (f"-W{one}" for one in sys.warnoptions)
    yield os.path.abspath(keeper.__file__)
