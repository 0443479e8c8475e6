"""The fork server of killed lives: it forks for every act, and answers how that ended."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from outlast import probes
from outlast_lab.experiments.kill import commands, memory, victims, workers
from outlast_lab.experiments.kill.speech import (
    LINE,
    PATIENCE_SECONDS,
    PROBE,
    RAISED,
    REACHED,
    STATE,
    die,
    say,
    speak_to,
)
from outlast_lab.experiments.kill.state import own_state
from outlast_lab.experiments.kill.writes import watch_writes
from outlast_lab.record.history import Line
from outlast_lab.record.recovery_scenarios import ALL_LIVES
from outlast_lab.record.scenarios import Life
from outlast_lab.stage.forks import in_a_fork, ready_to_fork
from outlast_lab.stage.wire import Wire, serve


def main(wire: Wire) -> None:
    """One act after another, each in a process of its own."""
    speak_to(wire)
    ready_to_fork()
    serve(wire, lambda act: partial(_act, ACTS[act]))


def _act(act: Callable[..., None], *arguments: Any) -> int:
    """The wait status of the fork that did it, and what it raised has been said."""
    ended = in_a_fork(partial(act, *arguments), PATIENCE_SECONDS)
    if ended.error is not None:
        say([RAISED, ended.error])
    return ended.status


def rehearse(name: str, database: str) -> None:
    """A life from its beginning to its end, with all it passes."""
    path = Path(database)
    _act(ALL_LIVES[name].before, path, _write)
    say([STATE, own_state(path)])
    _live(ALL_LIVES[name], path, partial(_tell, path))


def play(name: str, database: str, probe: str, nth: int) -> None:
    """A life until it passes a probe for the nth time."""
    path = Path(database)
    _act(ALL_LIVES[name].before, path, _write)
    _live(ALL_LIVES[name], path, killing_at(probe, nth))


def live_again(name: str, database: str, probe: str | None = None, nth: int = 0) -> None:
    """A life on what an earlier one left, perhaps until it passes a probe for the nth time."""
    act = killing_at(probe, nth) if probe is not None else lambda name: None
    _live(ALL_LIVES[name], Path(database), act)


def _live(life: Life, path: Path, act: Callable[[str], None]) -> None:
    probes.arm(_counting_writes(life.writes_from, act) if life.writes_from else act)
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
