"""Where lives are played: a child that forks a process for each, and kills it at a probe.

The forking child has imported everything and opened nothing, so a life costs some milliseconds
instead of the start of an interpreter. It is the same process as any other: it has its own pid,
its own locks, and it ends by SIGKILL.
"""

import os
import signal
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from outlast import _probe
from tests.crash.lives import LIVES, Life
from tests.support.children import Child
from tests.support.childside import die, hear, say
from tests.support.snapshots import State, state_by
from tests.support.syscalls import watch_writes

PATIENCE_SECONDS = 60


class Rehearsal(NamedTuple):
    """A life that nobody cut short: every probe it passed, and the content after each commit."""

    passed: list[str]
    states: list[State]

    def commits_before(self, probe: str, nth: int) -> int:
        """How many commits had returned at the nth passing of a probe."""
        places = [place for place, name in enumerate(self.passed) if name == probe]
        before = self.passed[: places[nth - 1] + 1]
        return sum(name.endswith(".committed") for name in before)

    def state_when_killed_at(self, probe: str, nth: int) -> State:
        """What must be found: exactly the commits that came before that moment."""
        return self.states[self.commits_before(probe, nth)]


class Death(NamedTuple):
    """A life that was cut short: the signal that ended it, and what it had acknowledged."""

    signal: int
    stored: list[str]
    ended: dict[str, str]


class Stage:
    """The parent's end: asks for lives and hears what became of them."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def rehearse(self, life: str, database: Path) -> Rehearsal:
        """Play a life to its end, and have it tell what it passes."""
        said, _ = self._play(life, database, None, 0)
        passed = [what for kind, what in said if kind == "probe"]
        return Rehearsal(passed, [what for kind, what in said if kind == "state"])

    def kill(self, life: str, database: Path, probe: str, nth: int) -> Death:
        """Play a life until it passes a probe for the nth time."""
        said, status = self._play(life, database, probe, nth)
        assert ["reached", probe] in said, f"{life} does not pass {probe} {nth} times"
        stored = [task_id for kind, what in said if kind == "stored" for task_id in what]
        ended = dict(what for kind, what in said if kind == "ended")
        return Death(os.WTERMSIG(status), stored, ended)

    def _play(
        self, life: str, database: Path, probe: str | None, nth: int
    ) -> tuple[list[Any], int]:
        self._child.say([life, str(database), probe, nth])
        said = []
        while (line := self._child.hear())[0] != "over":
            said.append(line)
        assert not [what for kind, what in said if kind == "raised"]
        return said, line[1]


def serve_lives() -> None:
    """The child's end: one life after another, each in a process of its own."""
    while (request := hear()) is not None:
        life, database, probe, nth = request
        path = Path(database)
        _in_a_process(partial(LIVES[life].before, path))
        say(["over", _in_a_process(partial(_play, LIVES[life], path, probe, nth))])


def _play(life: Life, path: Path, probe: str | None, nth: int) -> None:
    act = killing_at(probe, nth) if probe else partial(_tell, path)
    if probe is None:
        say(["state", content(path)])
    _probe.arm(_counting_writes(life.writes_from, act) if life.writes_from else act)
    life.live(path)


def _counting_writes(start: str, act: Callable[[str], None]) -> Callable[[str], None]:
    """From a probe on, each write of a file is a probe too: when half of it is done, and all."""
    passed: set[str] = set()

    def on_write(name: str, point: str, written: bytes) -> int:
        if start in passed:
            act(point)
        return 0

    def on_probe(name: str) -> None:
        passed.add(name)
        act(name)

    watch_writes(on_write)
    return on_probe


def _in_a_process(act: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            act()
        except BaseException:
            say(["raised", traceback.format_exc()])
        die()
    return os.waitpid(pid, 0)[1]


def killing_at(probe: str, nth: int) -> Callable[[str], None]:
    """A probe's action that ends the process at the nth passing."""
    left = nth

    def count_down(name: str) -> None:
        nonlocal left
        left -= name == probe
        if left == 0:
            say(["reached", probe])
            die()

    return count_down


def _tell(path: Path, name: str) -> None:
    say(["probe", name])
    if name.endswith(".committed"):
        say(["state", content(path)])


def content(path: Path) -> State:
    """The content as this process's own engine sees it."""
    connection = apsw.Connection(str(path) if path.exists() else ":memory:")

    def fetch(query: str) -> list[Any] | None:
        try:
            return connection.execute(query).fetchall()
        except apsw.SQLError as error:
            if "no such table" not in str(error):
                raise
            return None

    try:
        return state_by(fetch)
    finally:
        connection.close()
