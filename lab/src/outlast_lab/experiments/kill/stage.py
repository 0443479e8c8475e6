"""Where lives are played and killed: the experiment's end of the fork server in `serving`."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from outlast_lab.experiments.kill.speech import LINE, PROBE, RAISED, REACHED, READY, STATE
from outlast_lab.experiments.kill.state import State
from outlast_lab.record.history import Line
from outlast_lab.stage.fork_server import ForkServer, Raised
from outlast_lab.stage.wire import RAISES, SAYS


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


class Death(NamedTuple):
    """How an actor ended, and what was asked and acknowledged before."""

    signal: int | None
    lines: list[Line]
    has_reached: bool
    raised: list[str]


class Stage:
    """The experiment's end of it: asks for actors and hears what became of them."""

    def __init__(self) -> None:
        self.server = ForkServer("outlast_lab.experiments.kill.serving:main")

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
        self.server.tell(act, *arguments)
        return self._rest()

    def _rest(self) -> tuple[list[Any], int]:
        said = []
        while (heard := self.server.hear())[0] == SAYS:
            said.append(heard[1])
        if heard[0] == RAISES:
            raise Raised(heard[1])
        return said, heard[1]

    # Victims of random moments

    @contextmanager
    def acting(self, act: str, *arguments: Any) -> Iterator["Actor"]:
        """An act that goes on until it is killed or ends; on leaving it has ended."""
        self.server.tell(act, *arguments)
        word, value = self.server.hear()
        if word != SAYS or value[0] != READY:
            raise AssertionError(f"{act} did not begin: {value}")
        actor = Actor(value[1])
        try:
            yield actor
        finally:
            actor.kill()
            try:
                actor.death = _death(*self._rest())
            finally:
                actor.forget()

    def close(self, at_once: bool = False) -> None:
        """Let the forking process go, or end it at once with whatever it has under way."""
        if at_once:
            self.server.kill()
        self.server.close()

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
