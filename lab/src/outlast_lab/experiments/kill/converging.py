"""Recovery that was killed is lived again, perhaps killed again, and ends as if nobody had been.

What becomes of the session markers in between is drawn: they must not make a difference.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outlast_lab.experiments.kill.cases import Room
from outlast_lab.experiments.kill.speech import RAISED, REACHED
from outlast_lab.experiments.kill.stage import Rehearsal
from outlast_lab.experiments.kill.state import difference, recovered, state_of
from outlast_lab.judge.foreign_reader import copied
from outlast_lab.stage import session_markers

_KILLED_AGAIN = 0.7


class Again(NamedTuple):
    """How many of the lives that followed were killed before their end, and what was broken."""

    kills: int
    troubles: list[str]


def lived_again(room: Room, database: Path, text: str, life: str) -> Again:
    """Live a killed life again, mostly with another kill in between, and compare how it ends."""
    chance, rehearsal = room.chance(text), room.rehearsed(life)
    kills = 0
    session_markers.spoil(database, chance)
    if chance.random() < _KILLED_AGAIN:
        place = chance.randrange(len(rehearsal.passed))
        probe = rehearsal.passed[place]
        nth = rehearsal.passed[: place + 1].count(probe)
        said, status = room.stage.perform("live again", life, str(database), probe, nth)
        assert status == signal.SIGKILL
        # There may be less left to do, and then it came to its end.
        kills += any(word == REACHED for word, _ in said)
        session_markers.spoil(database, chance)
    said, _ = room.stage.perform("live again", life, str(database))
    raised = [str(what) for word, what in said if word == RAISED]
    return Again(kills, [*raised, *differences(rehearsal, database)])


def differences(rehearsal: Rehearsal, database: Path) -> Iterator[str]:
    """What is not as a life left it that nobody cut short."""
    with copied(database) as copy:
        found = recovered(state_of(copy))
    wanted = recovered(rehearsal.states[-1])
    for table, rows in wanted.items():
        if found[table] != rows:
            told = difference(found[table], rows)
            yield f"{table}: {told}, which is not how recovery ends"
