"""Where children of tests come from: forks of a process that has imported the library.

Each is a real process with a pid of its own, as if it had been started; only sooner.
"""

import json
import os
import select
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from tests.support.nursery_side import NUMBER

ROOT = Path(__file__).parents[2]


class Process(Protocol):
    """As much of subprocess.Popen as tests use."""

    pid: int
    stdin: IO[str] | None
    stdout: IO[str] | None
    stderr: IO[str] | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class Nursery:
    """One for each process that runs tests, made when the first child is wanted."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        self.kept = _what_cannot_change(os.environ)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nursery_side", str(theirs.fileno())],
                cwd=ROOT,
                env=child_environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def child(self, program: str, arguments: str) -> "Born":
        """A process that runs a program."""
        order = {"program": program, "arguments": arguments, "environment": child_environment()}
        file = os.memfd_create("order")
        with open(file, "wb", closefd=False) as written:
            written.write(json.dumps(order).encode())
        (stdin, to_it), (from_it, stdout), (errors, stderr) = (os.pipe() for _ in range(3))
        theirs = [file, stdin, stdout, stderr]
        pid = self._answer_to(0, theirs)
        for one in theirs:
            os.close(one)
        return Born(self, pid, to_it, from_it, errors)

    def bury(self, pid: int) -> int:
        """The wait status of a child that has ended, which is forgotten then."""
        return self._answer_to(pid, [])

    def _answer_to(self, number: int, descriptors: list[int]) -> int:
        with self._asking:
            socket.send_fds(self._control, [NUMBER.pack(number)], descriptors)
            told = self._control.recv(NUMBER.size)
        assert told, "the nursery has ended"
        (answer,) = NUMBER.unpack(told)
        return int(answer)


class Born:
    """A child of the nursery: a zombie when it has ended, until somebody asks how."""

    def __init__(self, by: Nursery, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin: IO[str] | None = os.fdopen(stdin, "w", encoding="utf-8")
        self.stdout: IO[str] | None = os.fdopen(stdout, encoding="utf-8")
        self.stderr: IO[str] | None = os.fdopen(stderr, encoding="utf-8")
        self._by = by
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended; negative for a signal."""
        if self._exit_code is None and has_ended(self.pid, 0):
            self._exit_code = os.waitstatus_to_exitcode(self._by.bury(self.pid))
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        if self._exit_code is None and not has_ended(self.pid, timeout):
            raise subprocess.TimeoutExpired("a child of the nursery", timeout or 0)
        code = self.poll()
        assert code is not None
        return code


def has_ended(pid: int, timeout_seconds: float | None) -> bool:
    """Whether a process that nobody has buried yet has ended, or does within this time."""
    descriptor = os.pidfd_open(pid)
    try:
        looking = select.poll()
        looking.register(descriptor, select.POLLIN)
        return bool(looking.poll(None if timeout_seconds is None else timeout_seconds * 1000))
    finally:
        os.close(descriptor)


def nursery() -> Nursery | None:
    """The nursery of this process; None if a child needs a start of its own."""
    made = _nursery_of(os.getpid())
    return made if made.kept == _what_cannot_change(os.environ) else None


@cache
def _nursery_of(pid: int) -> Nursery:
    return Nursery()


def child_environment() -> dict[str, str]:
    """This one's, in which the tests are found."""
    # After what its test imports from, which may be a copy with a deliberate defect.
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    return os.environ | {"PYTHONPATH": path}


def _what_cannot_change(environment: "os._Environ[str]") -> dict[str, str]:
    """What counts when a process starts, and no more when it runs."""
    return {
        name: value for name, value in environment.items() if name.startswith(("PYTHON", "LD_"))
    }
