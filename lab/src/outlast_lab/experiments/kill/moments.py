"""Kills at random moments: of producers, workers by hand, flushes, openings and recoveries."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

from outlast_lab.experiments.kill.cases import InTurn, Judgement, Room, remember
from outlast_lab.experiments.kill.judging import (
    acknowledged,
    complaints,
    of_the_dead,
    troubles_of_going_on,
    unfair,
)
from outlast_lab.experiments.kill.victims import VICTIMS
from outlast_lab.judge.foreign_reader import Stored, copied_stored
from outlast_lab.record.history import History, read_lines

IN_TURN = InTurn("random", VICTIMS)


def try_case(room: Room, database: Path, text: str) -> Judgement:
    """Kill one victim, or several one after the other on the same store, and judge what is left."""
    name = IN_TURN.name_in(text)
    victim, chance = VICTIMS[name], room.chance(text)
    room.stage.perform(
        f"before {name}", str(database), str(database.with_name("before.jsonl")), chance.random()
    )
    raised: list[str] = []
    kills = 0
    for life in range(victim.lives):
        record = database.with_name(f"victim {life}.jsonl")
        with room.stage.acting(f"victim {name}", str(database), str(record), chance.random()) as it:
            wait_seconds(chance.random() * victim.window_seconds)
            it.kill()
        raised += it.death.raised
        kills += it.death.signal == signal.SIGKILL
    remember(database)
    history = history_in(database.parent)
    found = copied_stored(database)
    troubles = [*raised, *complaints(history, found)]
    if database.exists():
        troubles += troubles_of_going_on(database, found)
        final = copied_stored(database)
        troubles += [*charged_more_than_once(final), *unfair(history, found, final)]
    return Judgement(kills, troubles, acknowledged(history), is_met=kills == victim.lives)


def wait_seconds(seconds: float) -> None:
    """Until a moment that is as random as the scheduler makes it, to the microsecond."""
    ends_at = time.perf_counter() + seconds
    if seconds > 0.001:
        time.sleep(seconds - 0.001)
    while time.perf_counter() < ends_at:
        pass


def history_in(folder: Path) -> History:
    """What all records of a case tell."""
    paths = sorted(folder.glob("*.jsonl"))
    return of_the_dead(line for path in paths for line in read_lines(path))


def charged_more_than_once(stored: Stored) -> Iterator[str]:
    """One death takes a task back once, however often the recovery itself was killed."""
    for task in stored.tasks.values():
        if task.recovery_count > 1:
            yield f"{task.id} was taken back {task.recovery_count} times from one dead process"
