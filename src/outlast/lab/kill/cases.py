"""One case of the experiment: a text that names it, and what it found."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from outlast.lab.kill.stage import Rehearsal, Stage

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9._ -]+")


class Judgement(NamedTuple):
    """What a case showed: how many processes were killed, and every promise it saw broken.

    How much was acknowledged before, and refused for want of memory, shows that it tried something.
    """

    kills: int
    troubles: list[str]
    acknowledged: int = 0
    refused: int = 0


class Room:
    """Where cases are tried: the stage, a folder, the seed, and what rehearsals have shown."""

    def __init__(self, stage: Stage, folder: Path, seed: int) -> None:
        self.stage = stage
        self.folder = folder
        self.seed = seed
        self._rehearsed: dict[str, Rehearsal] = {}

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


class Fresh:
    """A folder that is made for a case and is gone after it, unless it is wanted as evidence."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        return self._folder / "work.db"

    def __exit__(self, kind: object, *details: object) -> None:
        if kind is None:
            shutil.rmtree(self._folder, ignore_errors=True)


Case = Callable[[Room, Path, str], Judgement]
Cases = Iterator[tuple[str, Case]]
