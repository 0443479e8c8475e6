"""Playing lives with the recorder on, each in a process of its own that ends without goodbye."""

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from outlast.host import kernel
from outlast_lab.history import Line, LineFile, Write, read_lines
from outlast_lab.power import carelessness
from outlast_lab.power.own_lives import ALL_LIVES
from outlast_lab.power.recorder import record
from outlast_lab.power.recording import EventLog, Recording, keep_base

PLACE = ("made for", "the store")
"""The folders in which it lies. Nobody has made them, so Outlast does."""
DATABASE = "power.db"
FULL = "full"
SIDE = "-outlast"
SIDE_BEFORE = "side before"
"""The side folder as it was when the recording began."""

_PATIENCE_SECONDS = 120

Live = Callable[[Path, Write], None]


class DrivenFailed(Exception):
    """A driven process did not come to its end; its last words."""


def record_life(name: str, folder: Path, synchronous: str = FULL) -> Recording:
    """Play a life in a new folder and read what was recorded.

    Another `synchronous` than full is set behind Outlast's back.
    """
    life = ALL_LIVES[name]
    database = folder.joinpath(*PLACE, DATABASE)
    folder.mkdir(parents=True)
    before = folder / "then.jsonl"
    in_a_process(partial(_make_base, life.before, database, before))
    lines = read_lines(before) if before.exists() else []
    return record_driven(life.live, database, folder, lines, synchronous)


def record_driven(
    live: Live, database: Path, folder: Path, before: Iterable[Line], synchronous: str = FULL
) -> Recording:
    """Let something be done with a store, and read what was recorded."""
    keep_base(database, folder, before)
    side = database.with_name(f"{database.name}{SIDE}")
    if side.exists():
        shutil.copytree(side, folder / SIDE_BEFORE, ignore=_sockets)
    in_a_process(partial(_play, live, database, folder / "events", synchronous))
    return Recording.load(folder)


def _make_base(before: Live, database: Path, lines: Path) -> None:
    before(database, LineFile(lines).write)


def _play(live: Live, database: Path, events: Path, synchronous: str) -> None:
    log = EventLog(events)
    if synchronous != FULL:
        carelessness.set_behind_the_back(synchronous)
    record(database, log)
    live(database, log.tell)


def in_a_process(act: Callable[[], None]) -> None:
    """Do something in a fork of this process, which is killed at its end.

    This process must have no threads and no store open.
    """
    reading, writing = os.pipe()
    parent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        kernel.die_with_parent(parent_pid)
        signal.alarm(_PATIENCE_SECONDS)
        try:
            act()
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    with open(reading, "rb") as trouble:
        told = trouble.read()
    status = os.waitpid(pid, 0)[1]
    if told or os.WTERMSIG(status) != signal.SIGKILL:
        words = told.decode().strip().splitlines()[-1:]
        raise DrivenFailed(f"it did not come to its end: {words}")


def _sockets(folder: str, names: list[str]) -> list[str]:
    """What is left out of a copy."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not (path.is_file() or path.is_dir())]
