"""What every experiment is given and what it gives back."""

import logging
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

_UNFIT_FOR_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100


class Broken(Exception):
    """A promise was seen broken; the words of it."""


class Finding:
    """A promise that was seen broken: what, in which case, and where the evidence lies."""

    __slots__ = ("case", "evidence", "what")

    def __init__(self, what: str, case: str, evidence: Path | None = None) -> None:
        self.what = what
        self.case = case
        self.evidence = evidence

    def __repr__(self) -> str:
        """For failing tests."""
        return f"<{self.case}: {self.what}>"


@dataclass(slots=True)
class Plan:
    """How large an experiment shall be, and where it may work.

    Without `seconds` and `cases` it has its natural size. `case` is the text of one case, as a
    finding names it: it alone is repeated.
    """

    folder: Path
    seed: int = 1
    seconds: float | None = None
    cases: int | None = None
    case: str | None = None
    keep: Path | None = None
    progress: Callable[[str], None] = lambda text: None
    unkept: list[str] = field(default_factory=list)
    """What could not be kept as evidence."""
    _begun_at: float = field(default_factory=time.monotonic)

    def elapsed_seconds(self) -> float:
        """How long it has been under way."""
        return time.monotonic() - self._begun_at

    def time_is_up(self, otherwise_seconds: float | None = None) -> bool:
        """Whether the time that was given, or else the natural one, has passed."""
        limit = self.seconds if self.seconds is not None else otherwise_seconds
        return limit is not None and self.elapsed_seconds() >= limit

    def found(self, case: str, paths: Iterable[Path], broken: Iterable[object]) -> "list[Finding]":
        """A finding for each thing that was broken in a case, with the evidence of all."""
        words = [str(one) for one in broken]
        evidence = self.keep_evidence(case, paths, broken="\n".join(words)) if words else None
        return [Finding(one, case, evidence) for one in words]

    def keep_evidence(self, case: str, paths: Iterable[Path], **texts: str) -> Path | None:
        """Copy files and write texts into a folder of that case; None if nothing is kept."""
        if self.keep is None:
            return None
        # Two cases may differ in what a file's name cannot hold.
        mark = f"{zlib.crc32(case.encode()):08x}"
        folder = self.keep / f"{_UNFIT_FOR_A_NAME.sub('-', case)[:_LONGEST_NAME]}-{mark}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._copy(folder, paths, texts)
        except (OSError, shutil.Error) as error:
            self.unkept.append(f"the evidence of {case!r} could not be kept: {error}")
            return None
        return folder

    def _copy(self, folder: Path, paths: Iterable[Path], texts: dict[str, str]) -> None:
        for path in paths:
            if path.is_dir():
                shutil.copytree(path, folder / path.name, ignore=no_files, dirs_exist_ok=True)
            elif path.exists():
                shutil.copy(path, folder / path.name)
        for name, text in texts.items():
            with (folder / f"{name}.txt").open("a", encoding="utf-8") as file:
                file.write(text.rstrip("\n") + "\n")


def no_files(folder: str, names: list[str]) -> list[str]:
    """Sockets and the like, which cannot be copied."""
    paths = {name: Path(folder, name) for name in names}
    return [name for name, path in paths.items() if not (path.is_file() or path.is_dir())]


@contextmanager
def quiet() -> Iterator[None]:
    """Deaths and recoveries by the hundred are what is wanted here, and nothing to warn of."""
    log, nowhere = logging.getLogger("outlast"), logging.NullHandler()
    level = log.level
    log.addHandler(nowhere)
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(nowhere)


@dataclass(slots=True)
class Findings:
    """What came of an experiment."""

    experiment: str
    cases: int
    violations: list[Finding]
    seconds: float
    seed: int
    figures: dict[str, int | float | str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What could not be tried here, and why."""
    broke: str | None = None
    """The error that ended the experiment itself, if one did; what it found before stands."""


class Experiment(Protocol):
    """A module of the laboratory."""

    def run(self, plan: Plan) -> Findings:
        """Do it."""
        ...
