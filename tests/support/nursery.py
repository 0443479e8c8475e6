"""Where children of tests come from: forks of a process that has imported the library.

A start from nothing takes a third of a second of imports, and the tests start a thousand children.
Each is a real process, a zombie when it has ended until it is waited for, with nothing open but its
streams. It differs from one that was started in that the library is imported before its program,
with the hash seed and in the order of its siblings; whoever tests imports starts an interpreter.
"""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import IO, Protocol

from tests.support.nursery_side import NOBODY, TALK

ROOT = Path(__file__).parents[2]

_PATIENCE_SECONDS = 60


class Process(Protocol):
    """As much of subprocess.Popen as tests use."""

    pid: int
    stdin: IO[str] | None
    stdout: IO[str] | None
    stderr: IO[str] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Nursery:
    """The nursery of one process that runs tests, and that asks it for children."""

    def __init__(self) -> None:
        self._owner_pid = os.getpid()
        self._numbers = count(1)
        self._asking = threading.Lock()
        self._inherited = _inherited()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nursery_side", str(theirs.fileno())],
                cwd=ROOT,
                env=child_environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # Not a terminal, as the streams of children are none.
                stdout=subprocess.DEVNULL,
            )

    def is_here(self) -> bool:
        """Whether it serves this process, and has not ended."""
        return self._owner_pid == os.getpid() and self._process.poll() is None

    def has_what_we_have(self) -> bool:
        """Whether its children are as ours would be, in all that a process inherits."""
        return self._inherited == _inherited()

    def child(self, program: str, arguments: str) -> "Born":
        """A process that runs a program."""
        order = {"program": program, "arguments": arguments, "environment": child_environment()}
        with ExitStack() as theirs, ExitStack() as ours:
            file = os.memfd_create("order")
            theirs.callback(os.close, file)
            with open(file, "wb", closefd=False) as written:
                written.write(json.dumps(order).encode())
            stdin, *others = (os.pipe() for _ in range(3))
            # It reads from the first, and writes to the others.
            ends = [stdin[::-1], *others]
            for our_end, their_end in ends:
                ours.callback(os.close, our_end)
                theirs.callback(os.close, their_end)
            pid = self._answer_to(0, [file, *(their_end for _, their_end in ends)])
            ours.pop_all()
        return Born(self, pid, *(our_end for our_end, _ in ends))

    def bury(self, pid: int) -> int:
        """The wait status of a child that has ended, which is forgotten then."""
        status = self._answer_to(pid, [])
        assert status != NOBODY, f"{pid} is no child of the nursery, or was buried before"
        return status

    def _answer_to(self, asked: int, descriptors: list[int]) -> int:
        with self._asking:
            number = next(self._numbers)
            socket.send_fds(self._control, [TALK.pack(number, asked)], descriptors)
            while told := self._control.recv(TALK.size):
                answered, answer = TALK.unpack(told)
                # One who was struck by a signal's exception has left an older answer unread.
                if answered == number:
                    return int(answer)
        raise AssertionError("the nursery has ended; what it said is on the standard error")

    def end(self) -> None:
        """Let it go, and wait until it has gone."""
        if self._owner_pid == os.getpid():
            self._control.close()
            self._process.wait(_PATIENCE_SECONDS)


class Born:
    """A child of the nursery."""

    def __init__(self, by: Nursery, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin: IO[str] | None = os.fdopen(stdin, "w", encoding="utf-8")
        self.stdout: IO[str] | None = os.fdopen(stdout, encoding="utf-8")
        self.stderr: IO[str] | None = os.fdopen(stderr, encoding="utf-8")
        self._by = by
        self._burying = threading.Lock()
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended; negative for a signal."""
        with self._burying:
            if self._exit_code is None and has_ended(self.pid, 0):
                self._exit_code = os.waitstatus_to_exitcode(self._by.bury(self.pid))
            return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        if self._exit_code is None:
            has_ended(self.pid, timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a child of the nursery", timeout or 0)
        return code


def has_ended(pid: int, timeout_seconds: float | None) -> bool:
    """Whether a process has ended, or does within this time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        looking = select.poll()
        looking.register(descriptor, select.POLLIN)
        return bool(looking.poll(None if timeout_seconds is None else timeout_seconds * 1000))
    finally:
        os.close(descriptor)


class _Here:
    """The nursery of this process, made when the first child is wanted."""

    making = threading.Lock()
    nursery: Nursery | None = None


def nursery() -> Nursery | None:
    """Who bears our children; None if the next one needs a start of its own."""
    with _Here.making:
        if _Here.nursery is not None and not _Here.nursery.is_here():
            _Here.nursery.end()
            _Here.nursery = None
        if _Here.nursery is None:
            _Here.nursery = Nursery()
            atexit.register(_Here.nursery.end)
        return _Here.nursery if _Here.nursery.has_what_we_have() else None


def child_environment() -> dict[str, str]:
    """This one's, in which the tests are found."""
    # After what its test imports from, which may be a copy with a deliberate defect.
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    return os.environ | {"PYTHONPATH": path}


def _inherited() -> tuple[object, ...]:
    """What counts when a process starts, and cannot be told it later."""
    counting = {k: v for k, v in os.environ.items() if k.startswith(("PYTHON", "LD_"))}
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    kept = [one for one in status if one.startswith(("Umask", "SigBlk", "SigIgn", "Uid", "Gid"))]
    return counting, kept, Path("/proc/self/limits").read_text(encoding="ascii")
