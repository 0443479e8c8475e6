"""One of the processes that do the work: it plays lives, judges images and opens some by Outlast.

It has no threads and opens no store itself, so it may fork for everything that does. It reads
orders as lines of JSON and answers each by a line.
"""

import json
import logging
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast_lab.forking import ready_to_fork
from outlast_lab.power.driving import DATABASE, FULL, PLACE, SIDE, DrivenFailed, record_life
from outlast_lab.power.judging import Judge
from outlast_lab.power.recording import Recording
from outlast_lab.power.reopening import Reopening

LYING = "lying sync"
REFERENCE = "reference.json"


class Hand:
    """Keeps what it knows of recordings between orders."""

    def __init__(self, images: Path) -> None:
        self._images = images
        self._judges: dict[str, Judge] = {}
        self._opened: set[tuple[str, str]] = set()

    def prepare(self, folder: str, life: str, mode: str) -> dict[str, Any]:
        """Record a life, and judge each of its moments with nothing lost: that is the reference."""
        try:
            recording = record_life(life, Path(folder), FULL if mode in ("", LYING) else mode)
        except DrivenFailed as error:
            return {"failed": str(error)}
        judge = self._judge(folder, mode, recording)
        verdicts = judge.learn()
        (Path(folder) / REFERENCE).write_text(json.dumps(judge.reference), encoding="ascii")
        return {"verdicts": verdicts}

    def judge(self, folder: str, mode: str, cases: list[tuple[int, str]]) -> dict[str, Any]:
        """Judge images by the foreign reader."""
        judge = self._judge(folder, mode)
        return {"verdicts": [judge.judge(cut, choice) for cut, choice in cases]}

    def reopen(
        self, folder: str, mode: str, cases: list[tuple[int, str]], seed: int, second_cuts: int
    ) -> dict[str, Any]:
        """Have Outlast open images, each distinct one once, and let power fail again."""
        judge = self._judge(folder, mode)
        side = Path(folder).joinpath(*PLACE, f"{DATABASE}{SIDE}")
        reopening = Reopening(judge, Path(folder), side, self._images)
        told: dict[str, Any] = {"opened": [], "again": [], "opened again": 0}
        for cut, choice in cases:
            verdict = judge.judge(cut, choice)
            if (folder, verdict.image) in self._opened:
                continue
            self._opened.add((folder, verdict.image))
            found = reopening.reopen(cut, choice, seed, second_cuts)
            told["opened"].append(verdict._replace(complaints=found.complaints))
            told["again"] += [(cut, choice, verdict) for verdict in found.again]
            told["opened again"] += found.opened_again
        return told

    def _judge(self, folder: str, mode: str, recording: Recording | None = None) -> Judge:
        if folder not in self._judges:
            recording = recording or Recording.load(Path(folder))
            if mode == LYING:
                recording = recording.without_syncs()
            file = Path(folder) / REFERENCE
            reference = json.loads(file.read_text(encoding="ascii")) if file.exists() else None
            self._judges[folder] = Judge(recording, self._images, reference)
        return self._judges[folder]


def serve(images: Path) -> None:
    """Do what is ordered until nobody orders any more."""
    logging.getLogger("outlast").addHandler(logging.NullHandler())
    ready_to_fork()
    hand = Hand(images)
    # What is told goes to the one who ordered; nothing else may come between.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        for line in sys.stdin:
            order, arguments = json.loads(line)
            answers.write(json.dumps(getattr(hand, order)(**arguments)) + "\n")
            answers.flush()
    finally:
        # Whoever ordered may have been killed, and then nobody else takes this away.
        shutil.rmtree(images, ignore_errors=True)
        with suppress(OSError):
            if not any(one.is_dir() for one in images.parent.iterdir()):
                shutil.rmtree(images.parent, ignore_errors=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
