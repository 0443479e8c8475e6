"""The fork server in which cases are played: it forks for each, and judges what that leaves."""

import json
import logging
import os
import shutil
import tempfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

from outlast_lab.experiments.io_faults import trial
from outlast_lab.experiments.io_faults.faults import DEADLY, Fault, case_of
from outlast_lab.experiments.io_faults.judging import Left, judge
from outlast_lab.judge.foreign_reader import copied_stored
from outlast_lab.judge.reopening import after_reopening
from outlast_lab.judge.subscriber_rules import Listening
from outlast_lab.record.history import ANSWERED, Line, LineFile, read_lines
from outlast_lab.record.scenarios import LIVES
from outlast_lab.record.set_clock import SetClock
from outlast_lab.stage.forks import in_a_fork, ready_to_fork
from outlast_lab.stage.wire import Wire, serve

PATIENCE_SECONDS = 40
_OPENED_OF = 4
_DAYS_LATER = 3
DATABASE = "work.db"


class Stage:
    """Plays lives that were prepared once, each on a copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = 0

    def warm_up(self) -> None:
        """Import and read here, by a life that closes its store, what every case would have to."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            for act in LIVES["keep"][:2]:
                act(Path(folder) / DATABASE, lambda line: None)
        ready_to_fork()

    def prepare(self, life: str) -> list[Any]:
        """Make the store that a life begins with, and count the calls of a whole life."""
        base = self._base(life)
        base.mkdir(parents=True)
        record = self._record(life)
        before = partial(LIVES[life].before, base / DATABASE, LineFile(record).write)
        if (error := in_a_fork(before, PATIENCE_SECONDS).error) is not None:
            raise RuntimeError(f"the life {life!r} cannot begin: {error}")
        record.touch()
        told = self._play(life, None)
        return [told["notes"].get("counted", []), told["violations"], told["evidence"]]

    def play(self, text: str) -> dict[str, Any]:
        """Play one case and judge what is left."""
        case = case_of(text)
        told = self._play(case.life, case.fault)
        del told["notes"]
        return told

    def _play(self, life: str, fault: Fault | None) -> dict[str, Any]:
        place = self._folder / f"case-{os.getpid()}"
        shutil.copytree(self._base(life), place / "store", ignore=shutil.ignore_patterns("bell"))
        shutil.copy(self._record(life), place / "before.jsonl")
        record = place / "history.jsonl"
        database = place / "store" / DATABASE
        inode = database.stat().st_ino if database.exists() else None
        ended = in_a_fork(partial(trial.live, life, database, fault, str(record)), PATIENCE_SECONDS)
        # Before anybody reads it or opens it: that changes what the case has left.
        self._kept += 1
        evidence = self._folder / "evidence" / f"{os.getpid()}-{self._kept}"
        shutil.copytree(place, evidence, ignore=shutil.ignore_patterns("wake"))
        lines = read_lines(record)
        notes = {line[1]: line[2] for line in lines if line[0] == trial.NOTE}
        told = [line for line in lines if line[0] != trial.NOTE]
        is_deadly = fault is not None and fault.how_long == DEADLY
        left = Left(self._before(life) + told, notes, ended.status, database, inode, is_deadly)
        found = [] if ended.error is None else [f"it raised {ended.error}"]
        found += judge(left)
        if is_deadly or zlib.crc32(str(fault).encode()) % _OPENED_OF == 0:
            found += _reopened(database)
        answer = _summary(told, notes, found)
        if found:
            answer["evidence"] = str(evidence)
        else:
            shutil.rmtree(evidence)
        shutil.rmtree(place)
        return answer

    def _base(self, life: str) -> Path:
        return self._folder / "before" / life

    def _record(self, life: str) -> Path:
        return self._folder / "before" / f"{life}.jsonl"

    def _before(self, life: str) -> list[Line]:
        return read_lines(self._record(life))


def _summary(told: list[Line], notes: dict[str, Any], found: list[str]) -> dict[str, Any]:
    outcomes = [line[3] for line in told if line[0] == ANSWERED]
    return {
        "struck": next(iter(notes.get("struck", [])), None),
        "openings": notes.get("openings", 0),
        "unknown": outcomes.count("unknown"),
        "refused": outcomes.count("refused"),
        "violations": found,
        "evidence": None,
        "notes": notes,
    }


def _reopened(database: Path) -> list[str]:
    """What is wrong with the store as Outlast finds it in another process, twice."""
    if not database.exists():
        return []
    verdict = database.parent.parent / "reopened.json"

    def reopen() -> None:
        found = after_reopening(database, SetClock(_DAYS_LATER), copied_stored)
        verdict.write_text(json.dumps([str(one) for one in found]), encoding="utf-8")

    in_a_fork(reopen, PATIENCE_SECONDS)
    if not verdict.exists():
        return ["it could not be opened twice"]
    found: list[str] = json.loads(verdict.read_text(encoding="utf-8"))
    return found


def main(wire: Wire, folder: str) -> None:
    """Serve until nobody asks any more."""
    logging.disable(logging.CRITICAL)
    # A disk that stays broken has nothing more to tell.
    Listening.patience_seconds = 1.0
    stage = Stage(Path(folder))
    stage.warm_up()
    serve(wire, partial(getattr, stage))
