"""Where lives are played: a process that has imported all and opened nothing, and forks the actors.

An actor costs some milliseconds instead of the start of an interpreter. It is a process as any
other: it has its own pid and its own locks, and it ends by SIGKILL.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.history import Line
from outlast_lab.kill.speech import LINE, OVER, PROBE, RAISED, REACHED, READY, STATE
from outlast_lab.kill.state import State

_GOODBYE_SECONDS = 10


class Rehearsal(NamedTuple):
    """A life that nobody cut short: every probe it passed, and the content after each commit."""

    passed: list[str]
    states: list[State]
    lines: list[Line]

    def commits_before(self, probe: str, nth: int) -> int:
        """How many commits had returned at the nth passing of a probe."""
        places = [place for place, name in enumerate(self.passed) if name == probe]
        before = self.passed[: places[nth - 1] + 1]
        return sum(name.endswith(".committed") for name in before)

    def state_when_killed_at(self, probe: str, nth: int) -> State:
        """What must be found: exactly the commits that came before that moment."""
        return self.states[self.commits_before(probe, nth)]


class Death(NamedTuple):
    """How an actor ended, and what was asked and acknowledged before."""

    signal: int | None
    lines: list[Line]
    has_reached: bool
    raised: list[str]


class Stage:
    """The experiment's end of it: asks for actors and hears what became of them."""

    def __init__(self, troubles: Path) -> None:
        self._troubles = troubles.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "outlast_lab.kill.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._troubles,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
            # A group of its own, so that it can be ended with all that it started.
            process_group=0,
        )

    # Lives

    def rehearse(self, life: str, database: Path) -> Rehearsal:
        """Play a life to its end, and have it tell what it passes."""
        said, _ = self.perform("rehearse", life, str(database))
        if raised := _of(RAISED, said):
            raise AssertionError(f"the life {life!r} cannot be played: {raised[0]}")
        return Rehearsal(_of(PROBE, said), _of(STATE, said), _of(LINE, said))

    def kill(self, life: str, database: Path, probe: str, nth: int) -> Death:
        """Play a life until it passes a probe for the nth time."""
        said, status = self.perform("play", life, str(database), probe, nth)
        return _death(said, status)

    def perform(self, act: str, *arguments: Any) -> tuple[list[Any], int]:
        """An act from its beginning to its end: all that was said, and the wait status."""
        self._ask(act, *arguments)
        said = []
        while (line := self._hear())[0] != OVER:
            said.append(line)
        return said, line[1]

    # Victims of random moments

    @contextmanager
    def acting(self, act: str, *arguments: Any) -> Iterator["Actor"]:
        """An act that goes on until it is killed or ends; on leaving it has ended."""
        self._ask(act, *arguments)
        word, value = self._hear()
        if word != READY:
            raise AssertionError(f"{act} did not begin: {value}")
        actor = Actor(value)
        try:
            yield actor
        finally:
            actor.kill()
            try:
                said = []
                while (line := self._hear())[0] != OVER:
                    said.append(line)
                actor.death = _death(said, line[1])
            finally:
                actor.forget()

    def _ask(self, *request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(_GOODBYE_SECONDS)
            raise AssertionError(f"the stage is gone: see {self._troubles.name}")
        return json.loads(line)

    def close(self, at_once: bool = False) -> None:
        """Let the forking process go, or end it at once with whatever it has under way."""
        if at_once:
            self._end_group()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._end_group()
            self._process.wait()
        self._troubles.close()

    def _end_group(self) -> None:
        """To be called while the stage is not waited for: until then the number is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        self.close(at_once=kind is not None)


class Actor:
    """A process that is under way, or has ended already: what is sent to it reaches nobody else."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = _descriptor_of(pid)
        self.killed_at: float | None = None
        self.death = Death(None, [], False, [])

    def kill(self) -> None:
        """End it as a crash would, unless that was done or it has ended by itself."""
        if self.killed_at is None:
            self.send(signal.SIGKILL)
            self.killed_at = time.monotonic()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def forget(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def spared(self) -> None:
        """It is to end by itself; somebody else sees to it that it does."""
        self.killed_at = time.monotonic()


def _descriptor_of(pid: int) -> int | None:
    """A descriptor of a process, or None if it has ended and was waited for."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _of(kind: str, said: list[Any]) -> list[Any]:
    return [what for word, what in said if word == kind]


def _death(said: list[Any], status: int) -> Death:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return Death(number, _of(LINE, said), bool(_of(REACHED, said)), _of(RAISED, said))
