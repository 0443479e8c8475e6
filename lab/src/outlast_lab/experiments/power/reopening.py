"""What Outlast itself makes of an image: it recovers, goes on, and everything can be finished.

While it does, it is recorded like any life, so that power can fail again in the middle of it.
"""

import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from outlast.app.app import Outlast
from outlast_lab.experiments.power.choices import Choosing
from outlast_lab.experiments.power.disk import Image
from outlast_lab.experiments.power.driving import SIDE, SIDE_BEFORE, DrivenFailed, record_driven
from outlast_lab.experiments.power.judging import (
    BROKEN,
    LOST,
    Complaint,
    Judge,
    Verdict,
    killed,
    lay_down,
    read_image,
)
from outlast_lab.experiments.power.next_boot import BootClock, begin_boot, lay_down_side
from outlast_lab.experiments.power.recording import TOLD, Recording
from outlast_lab.judge.foreign_reader import Stored
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.replay import FINAL
from outlast_lab.record.history import Write, history_of
from outlast_lab.record.recorder import Witness
from outlast_lab.record.scenarios import SETTINGS

SECOND_CUTS = 12

_OPENED_AGAIN = 2
_REFUNDED = "never_started"
_AT_ONCE = 5
_MOST_TASKS = 1000
_SHARED_MEMORY_BYTES = 32768


def worker_of(boot: int) -> str:
    """Who opens the store after so many power cuts."""
    return f"the one of boot {boot}"


def go_on(boot: int, database: Path, write: Write) -> None:
    """After another boot: recover, let everything run that waits, and complete it."""
    begin_boot(boot)
    clock = BootClock(boot)
    app = Outlast(database, settings=SETTINGS, clock=clock)
    one = Witness(app, worker_of(boot), write, clock.of_all_boots)
    one.open()
    one.unpause("default")
    waiting = one.call("tasks", {}, lambda: one.app.tasks("pending", limit=_MOST_TASKS))
    for task in waiting or ():
        if task.parked is not None:
            one.unpark_task(task.id)
    one.enqueue(f"after cut {boot}")
    clock.of_all_boots.advance("1h")
    while leases := one.claim(limit=_AT_ONCE):
        one.complete_many([(lease, None) for lease in leases])
    one.close()


class Reopened(NamedTuple):
    """What came of opening an image: complaints, and the images of power failing again."""

    complaints: list[Complaint]
    again: list[Verdict]
    opened_again: int = 0
    """How many of those were opened by Outlast too."""


class Reopening:
    """Opens images of one recording by Outlast, each in a process of its own."""

    def __init__(self, judge: Judge, played: Path, side: Path, folder: Path, boot: int = 1) -> None:
        self._judge = judge
        self._before = played / SIDE_BEFORE
        self._side = side
        """The side folder as the dead process left it at its end."""
        self._folder = folder
        self._boot = boot
        """How many times power has failed."""

    def reopen(self, cut: int, choice: str, seed: int, second_cuts: int = 0) -> Reopened:
        """Open the image of a case, go on, judge; and let power fail again while it does."""
        image = self._judge.image(cut, choice)
        chance = random.Random(f"{seed} {cut} {choice}")
        folder = self._folder / f"opened {self._boot}"
        try:
            recording, after = self._drive(image, cut, folder, chance)
            complaints = list(self._objections(image, recording, after))
            return self._fail_again(complaints, recording, folder, chance, second_cuts)
        except DrivenFailed as error:
            return Reopened([Complaint(BROKEN, f"Outlast opened it: {error}")], [])
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
        lay_down_side(self._before, self._side, _side_of(database), chance)
        lines = self._judge.recording.told_until(cut)
        lines = [*lines, *killed(lines)]
        recording = record_driven(partial(go_on, self._boot), database, folder, lines)
        return recording, read_image(database).stored

    def _objections(self, image: Image, recording: Recording, after: Stored) -> Iterator[Complaint]:
        history = history_of(recording.told_until(len(recording.events)))
        for call in history.calls:
            if call.worker == worker_of(self._boot) and not call.is_done:
                yield Complaint(BROKEN, f"{call.verb} was {call.outcome}: {call.value}")
        for one in violations(history, after):
            yield Complaint(LOST, f"after going on: {one}")
        for task_id, status in after.statuses().items():
            if status not in FINAL:
                yield Complaint(LOST, f"{task_id} is {status} and cannot be finished")
        found = self._judge.held_by(image)
        for task_id, status in found.statuses().items():
            if status in FINAL and after.statuses().get(task_id) != status:
                yield Complaint(LOST, f"{task_id} was {status} and is so no longer")
        for task_id, moves in after.moves.items():
            since = moves[len(found.moves.get(task_id, ())) :]
            if any(move.reason == _REFUNDED for move in since):
                # What has begun is written down unsynced, so after a power cut nobody knows it.
                yield Complaint(LOST, f"{task_id} was refunded on the word of another boot")

    def _fail_again(
        self,
        complaints: list[Complaint],
        recording: Recording,
        folder: Path,
        chance: random.Random,
        cuts: int,
    ) -> Reopened:
        if not cuts:
            return Reopened(complaints, [])
        images = folder / "again"
        images.mkdir()
        judge = Judge(recording, images)
        seed = chance.randrange(10**6)
        choosing = Choosing("again", recording, seed)
        opened = _opened_at(recording)
        cases = [one for one in (*choosing.always(), *choosing.others()) if one.cut <= opened]
        chosen = sorted(chance.sample(cases, min(cuts, len(cases))), key=lambda one: one.cut)
        verdicts = [judge.judge(case.cut, case.choice) for case in chosen]
        side = _side_of(folder / "store" / recording.database)
        reopening = Reopening(judge, folder, side, images, self._boot + 1)
        sample = chance.sample(range(len(chosen)), min(_OPENED_AGAIN, len(chosen)))
        for number in sample:
            case = chosen[number]
            found = reopening.reopen(case.cut, case.choice, seed)
            verdicts[number].complaints.extend(found.complaints)
        return Reopened(complaints, verdicts, len(sample))


def _side_of(database: Path) -> Path:
    return database.with_name(f"{database.name}{SIDE}")


def _opened_at(recording: Recording) -> int:
    """How many events there were when the opening had been answered."""
    told = [n for n, event in enumerate(recording.events, 1) if event.kind == TOLD]
    return told[1] if len(told) > 1 else len(recording.events)
