"""One case of the experiment: a text that names it, and what it found."""

import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from outlast_lab.experiment import no_files
from outlast_lab.experiments.kill.stage import Rehearsal, Stage
from outlast_lab.record.history import Line, LineFile

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9._ -]+")


class Judgement(NamedTuple):
    """What a case showed: how many processes were killed, and every promise it saw broken.

    How much was acknowledged before, and refused for want of memory, shows that it tried something.
    A case whose kill came too late, or whose limit was too wide, was not met and does not count.
    """

    kills: int
    troubles: list[str]
    acknowledged: int = 0
    refused: int = 0
    is_met: bool = True


class Room:
    """Where cases are tried: the stage, a folder, the seed, and what rehearsals have shown."""

    def __init__(self, stage: Stage, folder: Path, seed: int) -> None:
        self.stage = stage
        self.folder = folder
        self.seed = seed
        self._rehearsed: dict[str, Rehearsal] = {}
        self.durations: dict[str, float] = {}
        """How many seconds things took that were rehearsed."""

    def rehearsed(self, life: str) -> Rehearsal:
        """A life played once to its end, to know what a killed one must look like."""
        if life not in self._rehearsed:
            with self.fresh(f"rehearsal of {life}") as database:
                self._rehearsed[life] = self.stage.rehearse(life, database)
        return self._rehearsed[life]

    def fresh(self, case: str) -> "Fresh":
        """A folder for one case."""
        return Fresh(self.folder / _UNFIT_FOR_A_NAME.sub("-", case))

    def chance(self, case: str) -> random.Random:
        """The chance of one case: the same seed and text draw the same."""
        return random.Random(f"{self.seed} {case}")


def left_by_the_dead(database: Path) -> Path:
    """Where the files of a case are kept as the dead left them."""
    return database.parent.with_name(f"{database.parent.name} as found")


def record_lines(database: Path, lines: Iterable[Line]) -> None:
    """Keep what was told over the wire among the files of a case."""
    record = LineFile(database.with_name("history.jsonl"))
    for line in lines:
        record.write(line)
    record.close()


def remember(database: Path) -> None:
    """Copy all files of a case now, before Outlast recovers them and works them to their end."""
    copy = left_by_the_dead(database)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(database.parent, copy, ignore=no_files)


class Fresh:
    """A folder that is made for a case and is gone after it; what is evidence is copied before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        self._clear()
        self._folder.mkdir(parents=True)
        return self._database

    def __exit__(self, *details: object) -> None:
        self._clear()

    @property
    def _database(self) -> Path:
        return self._folder / "work.db"

    def _clear(self) -> None:
        for folder in (self._folder, left_by_the_dead(self._database)):
            shutil.rmtree(folder, ignore_errors=True)


Case = Callable[[Room, Path, str], Judgement]
Cases = Iterator[tuple[str, Case]]


class InTurn:
    """Cases of a kind that are numbered: one of each name in turn, without end."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        self._kind = kind
        self._names = tuple(names)
        self._text = re.compile(rf"{kind} ({'|'.join(self._names)}) \d+")

    def cases(self, case: Case) -> Cases:
        """The texts, each with what tries it."""
        for number in count(1):
            for name in self._names:
                yield f"{self._kind} {name} {number}", case

    def names(self, text: str) -> bool:
        """Whether a text names a case of this kind."""
        return self._text.fullmatch(text) is not None

    def name_in(self, text: str) -> str:
        """The name of which a text is a case."""
        return text.removeprefix(f"{self._kind} ").rpartition(" ")[0]
