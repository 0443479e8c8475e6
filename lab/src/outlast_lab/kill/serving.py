"""The stage itself: the program that forks a process for every act and says how it ended."""

import os
import signal
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from outlast.host import probe_points
from outlast_lab.forking import ready_to_fork
from outlast_lab.history import Line
from outlast_lab.kill import commands, memory, victims, workers
from outlast_lab.kill.speech import (
    LINE,
    OVER,
    PATIENCE_SECONDS,
    PROBE,
    RAISED,
    REACHED,
    STATE,
    die,
    hear,
    say,
)
from outlast_lab.kill.state import own_state
from outlast_lab.kill.writes import watch_writes
from outlast_lab.lives import Life
from outlast_lab.recovery_lives import ALL_LIVES


def serve() -> None:
    """One act after another, each in a process of its own."""
    ready_to_fork()
    while (request := hear()) is not None:
        act, *arguments = request
        say([OVER, in_a_process(partial(ACTS[act], *arguments))])


def in_a_process(act: Callable[[], None]) -> int:
    """Run an act in a forked process, which ends by SIGKILL at the latest when it is done."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            act()
        except BaseException:
            say([RAISED, traceback.format_exc()])
        die()
    return os.waitpid(pid, 0)[1]


def rehearse(name: str, database: str) -> None:
    """A life from its beginning to its end, with all it passes."""
    path = Path(database)
    in_a_process(partial(ALL_LIVES[name].before, path, _write))
    say([STATE, own_state(path)])
    _live(ALL_LIVES[name], path, partial(_tell, path))


def play(name: str, database: str, probe: str, nth: int) -> None:
    """A life until it passes a probe for the nth time."""
    path = Path(database)
    in_a_process(partial(ALL_LIVES[name].before, path, _write))
    _live(ALL_LIVES[name], path, killing_at(probe, nth))


def live_again(name: str, database: str, probe: str | None = None, nth: int = 0) -> None:
    """A life on what an earlier one left, perhaps until it passes a probe for the nth time."""
    act = killing_at(probe, nth) if probe is not None else lambda name: None
    _live(ALL_LIVES[name], Path(database), act)


def _live(life: Life, path: Path, act: Callable[[str], None]) -> None:
    probe_points.arm(_counting_writes(life.writes_from, act) if life.writes_from else act)
    life.live(path, _write)


def _write(line: Line) -> None:
    say([LINE, line])


def _tell(path: Path, name: str) -> None:
    say([PROBE, name])
    if name.endswith(".committed"):
        say([STATE, own_state(path)])


def killing_at(probe: str, nth: int) -> Callable[[str], None]:
    """A probe's action that ends the process at the nth passing."""
    left = nth

    def count_down(name: str) -> None:
        nonlocal left
        left -= name == probe
        if left == 0:
            say([REACHED, probe])
            die()

    return count_down


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


ACTS: dict[str, Callable[..., None]] = {
    "rehearse": rehearse,
    "play": play,
    "live again": live_again,
    **victims.ACTS,
    **workers.ACTS,
    **commands.ACTS,
    **memory.ACTS,
}

if __name__ == "__main__":
    serve()
