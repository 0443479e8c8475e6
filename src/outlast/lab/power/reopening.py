"""What Outlast itself makes of an image: it recovers, goes on, and everything can be finished.

While it does, it is recorded like any life, so that power can fail again in the middle of it.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outlast.api import Outlast
from outlast.lab.history import Write, history_of
from outlast.lab.invariants import violations
from outlast.lab.lives import SETTINGS, SetClock
from outlast.lab.power.choices import Choosing
from outlast.lab.power.disk import Image
from outlast.lab.power.driving import DrivenFailed, record_driven
from outlast.lab.power.judging import (
    BROKEN,
    LOST,
    Complaint,
    Judge,
    Verdict,
    killed,
    lay_down,
    read_image,
)
from outlast.lab.power.recording import TOLD, Recording
from outlast.lab.stored import Stored
from outlast.lab.witness import Witness

WORKER = "the next one"
SECOND_CUTS = 12

_DAYS_LATER = 4
_AT_ONCE = 5
_MOST_TASKS = 1000
_FINAL = ("completed", "failed", "cancelled")
_SHARED_MEMORY_BYTES = 32768


def go_on(database: Path, write: Write) -> None:
    """Recover, let everything run that waits, and complete it."""
    clock = SetClock(_DAYS_LATER)
    one = Witness(Outlast(database, settings=SETTINGS, clock=clock), WORKER, write, clock)
    one.open()
    one.unpause("default")
    waiting = one.call("tasks", {}, lambda: one.app.tasks("pending", limit=_MOST_TASKS))
    for task in waiting or ():
        if task.parked is not None:
            one.unpark_task(task.id)
    one.enqueue("after the cut")
    clock.advance("1h")
    while leases := one.claim(limit=_AT_ONCE):
        one.complete_many([(lease, None) for lease in leases])
    one.close()


class Reopened(NamedTuple):
    """What came of opening an image: complaints, and the images of power failing again."""

    complaints: list[Complaint]
    again: list[Verdict]


class Reopening:
    """Opens images of one recording by Outlast, each in a process of its own."""

    def __init__(self, judge: Judge, side: Path, folder: Path) -> None:
        self._judge = judge
        self._side = side
        """The side folder as the dead process left it; a power cut may leave it or not."""
        self._folder = folder

    def reopen(self, cut: int, choice: str, seed: int, second_cuts: int = 0) -> Reopened:
        """Open the image of a case, go on, judge; and let power fail again while it does."""
        image = self._judge.image(cut, choice)
        chance = random.Random(f"{seed} {cut} {choice}")
        folder = self._folder / "opened"
        try:
            recording, after = self._drive(image, cut, folder, chance)
        except DrivenFailed as error:
            shutil.rmtree(folder, ignore_errors=True)
            return Reopened([Complaint(BROKEN, f"Outlast opened it: {error}")], [])
        try:
            complaints = list(self._objections(cut, image, recording, after))
            again = list(self._fail_again(recording, folder, chance, second_cuts))
            return Reopened(complaints, again)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _drive(
        self, image: Image, cut: int, folder: Path, chance: random.Random
    ) -> tuple[Recording, Stored]:
        database = folder / "store" / self._judge.recording.database
        database.parent.mkdir(parents=True)
        lay_down(image, database.parent)
        if database.exists() and chance.random() < 0.5:
            # Memory shared by processes that are no more is worth nothing, and may be anything.
            shared = database.with_name(f"{database.name}-shm")
            shared.write_bytes(chance.randbytes(_SHARED_MEMORY_BYTES))
        if self._side.exists() and chance.random() < 0.5:
            shutil.copytree(
                self._side, database.with_name(self._side.name), ignore=_only_files_and_folders
            )
        lines = self._judge.recording.told_until(cut)
        recording = record_driven(go_on, database, folder, [*lines, *killed(lines)])
        return recording, read_image(database).stored

    def _objections(
        self, cut: int, image: Image, recording: Recording, after: Stored
    ) -> Iterator[Complaint]:
        history = history_of(recording.told_until(len(recording.events)))
        for call in history.calls:
            if call.worker == WORKER and not call.is_done:
                yield Complaint(BROKEN, f"{call.verb} was {call.outcome}: {call.value}")
        for one in violations(history, after):
            yield Complaint(LOST, f"after going on: {one}")
        for task_id, status in after.statuses().items():
            if status not in _FINAL:
                yield Complaint(LOST, f"{task_id} is {status} and cannot be finished")
        found = self._judge.read_files(image).stored
        for task_id, status in found.statuses().items():
            if status in _FINAL and after.statuses().get(task_id) != status:
                yield Complaint(LOST, f"{task_id} was {status} and is so no longer")

    def _fail_again(
        self, recording: Recording, folder: Path, chance: random.Random, cuts: int
    ) -> Iterator[Verdict]:
        if not cuts:
            return
        images = folder / "again"
        images.mkdir()
        judge = Judge(recording, images)
        choosing = Choosing("again", recording, chance.randrange(10**6))
        opened = _opened_at(recording)
        cases = [one for one in (*choosing.always(), *choosing.others()) if one.cut <= opened]
        chosen = sorted(chance.sample(cases, min(cuts, len(cases))), key=lambda one: one.cut)
        for case in chosen:
            yield judge.judge(case.cut, case.choice)


def _opened_at(recording: Recording) -> int:
    """How many events there were when the opening had been answered."""
    told = [n for n, event in enumerate(recording.events, 1) if event.kind == TOLD]
    return told[1] if len(told) > 1 else len(recording.events)


def _only_files_and_folders(folder: str, names: list[str]) -> list[str]:
    """What is left out of a copy: sockets."""
    return [
        name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())
    ]
