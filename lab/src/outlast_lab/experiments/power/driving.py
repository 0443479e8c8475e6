"""Playing lives with the recorder on, each in a process of its own that ends without goodbye."""

import os
import shutil
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from outlast_lab.experiment import no_files
from outlast_lab.experiments.power import carelessness
from outlast_lab.experiments.power.own_scenarios import ALL_LIVES
from outlast_lab.experiments.power.recorder import record
from outlast_lab.experiments.power.recording import EventLog, Recording, keep_base
from outlast_lab.record.history import Line, LineFile, Write, read_lines
from outlast_lab.stage.forks import in_a_fork

PLACE = ("made for", "the store")
"""The folders in which it lies. They are there before, for Outlast makes none on the way."""
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
    database.parent.mkdir(parents=True)
    before = folder / "then.jsonl"
    driven(partial(_make_base, life.before, database, before))
    lines = read_lines(before) if before.exists() else []
    return record_driven(life.live, database, folder, lines, synchronous)


def record_driven(
    live: Live, database: Path, folder: Path, before: Iterable[Line], synchronous: str = FULL
) -> Recording:
    """Let something be done with a store, and read what was recorded."""
    keep_base(database, folder, before)
    side = database.with_name(f"{database.name}{SIDE}")
    if side.exists():
        shutil.copytree(side, folder / SIDE_BEFORE, ignore=no_files)
    driven(partial(_play, live, database, folder / "events", synchronous))
    return Recording.load(folder)


def _make_base(before: Live, database: Path, lines: Path) -> None:
    before(database, LineFile(lines).write)


def _play(live: Live, database: Path, events: Path, synchronous: str) -> None:
    log = EventLog(events)
    if synchronous != FULL:
        carelessness.set_behind_the_back(synchronous)
    record(database, log)
    live(database, log.tell)


def driven(act: Callable[[], None]) -> None:
    """Do something in a fork of this process, to its end."""
    ended = in_a_fork(act, _PATIENCE_SECONDS)
    if ended.error is not None or os.WTERMSIG(ended.status) != signal.SIGKILL:
        words = (ended.error or "").strip().splitlines()[-1:]
        raise DrivenFailed(f"it did not come to its end: {words}")
