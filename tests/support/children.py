"""Real child processes: started from a function's source, spoken to by lines, ended by pid."""

import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.nursery import ROOT, Process, child_environment, has_ended, nursery

__all__ = ["ROOT", "Child"]


class Child:
    """A child that runs one self-contained function with JSON arguments.

    The function imports what it needs, `say` and `hear` of tests.support.childside among it.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        program = _PROLOGUE + textwrap.dedent(inspect.getsource(function))
        program += f"\n{function.__name__}(*json.loads(sys.argv[1]))\n"
        given = json.dumps([_plain(one) for one in arguments])
        born_by = nursery()
        self._process: Process = (
            born_by.child(program, given) if born_by is not None else _started(program, given)
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> Any:
        """The next thing the child says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the child said nothing more: {self.error()}")
        return json.loads(line)

    def hear_all(self) -> list[Any]:
        """Everything the child says until it ends."""
        assert self._process.stdout is not None
        said = [json.loads(line) for line in self._process.stdout if line.endswith("\n")]
        self._process.wait(timeout=60)
        return said

    def say(self, value: Any = None) -> None:
        """Send the child a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def error(self) -> str:
        """What the child wrote to stderr; waits for its end."""
        self._process.wait(timeout=60)
        assert self._process.stderr is not None
        return self._process.stderr.read()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def dies_of(self, number: int) -> None:
        """Returns when it is dead and not reaped yet: one may still ask for the signal."""
        self.signal(number)
        assert has_ended(self.pid, 60)

    def kill(self) -> None:
        """End it as a crash would, and reap it."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(timeout=60)
        self._close()

    def wait(self) -> int:
        """Its exit code; negative for a signal."""
        return self._process.wait(timeout=60)

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                with suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *details: object) -> None:
        self.kill()


def _started(program: str, given: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=child_environment(),
    )


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


_PROLOGUE = "import json, sys\n"
