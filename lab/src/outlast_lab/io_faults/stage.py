"""The process in which cases are played: it has imported all, opened nothing, and forks for each.

It is told of cases line by line on its standard input, and answers each with a line of JSON.
"""

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast_lab.aftermath import after_reopening
from outlast_lab.forking import ready_to_fork
from outlast_lab.history import ANSWERED, Line, LineFile, read_lines
from outlast_lab.io_faults import trial
from outlast_lab.io_faults.faults import DEADLY, Fault, case_of
from outlast_lab.io_faults.judging import Left, judge, read_copy
from outlast_lab.lives import LIVES
from outlast_lab.set_clock import SetClock
from outlast_lab.telling import Listening

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
        _in_a_process(lambda: LIVES[life].before(base / DATABASE, LineFile(record).write))
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
        status = _in_a_process(lambda: trial.live(life, database, fault, str(record)))
        # Before anybody reads it or opens it: that changes what the case has left.
        self._kept += 1
        evidence = self._folder / "evidence" / f"{os.getpid()}-{self._kept}"
        shutil.copytree(place, evidence, ignore=shutil.ignore_patterns("wake"))
        lines = read_lines(record)
        notes = {line[1]: line[2] for line in lines if line[0] == trial.NOTE}
        told = [line for line in lines if line[0] != trial.NOTE]
        is_deadly = fault is not None and fault.how_long == DEADLY
        left = Left(self._before(life) + told, notes, status, database, inode, is_deadly)
        found = judge(left)
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
        found = after_reopening(database, SetClock(_DAYS_LATER), read_copy)
        verdict.write_text(json.dumps([str(one) for one in found]), encoding="utf-8")

    _in_a_process(reopen)
    if not verdict.exists():
        return ["it could not be opened twice"]
    found: list[str] = json.loads(verdict.read_text(encoding="utf-8"))
    return found


def _in_a_process(act: Callable[[], None]) -> int:
    """How a forked process ended that did this, and was then killed if it was still there."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os.kill(os.getpid(), signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def main() -> None:
    """Serve until nobody asks any more."""
    logging.disable(logging.CRITICAL)
    # A disk that stays broken has nothing more to tell.
    Listening.patience_seconds = 1.0
    stage = Stage(Path(sys.argv[1]))
    stage.warm_up()
    for line in sys.stdin:
        verb, what = json.loads(line)
        answer = stage.prepare(what) if verb == "prepare" else stage.play(what)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
