"""Recovery that was killed is lived again, perhaps killed again, and ends as if nobody had been.

What becomes of the session markers in between is drawn: they must not make a difference.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from outlast_lab import markers
from outlast_lab.kill.cases import Room
from outlast_lab.kill.speech import RAISED, REACHED
from outlast_lab.kill.stage import Rehearsal
from outlast_lab.kill.state import State, copied, recovered, state_of

_KILLED_AGAIN = 0.7
_MOST_SHOWN = 2


class Again(NamedTuple):
    """How many of the lives that followed were killed before their end, and what was broken."""

    kills: int
    troubles: list[str]


def lived_again(room: Room, database: Path, text: str, life: str) -> Again:
    """Live a killed life again, mostly with another kill in between, and compare how it ends."""
    chance, rehearsal = room.chance(text), room.rehearsed(life)
    kills = 0
    markers.spoil(database, chance)
    if chance.random() < _KILLED_AGAIN:
        place = chance.randrange(len(rehearsal.passed))
        probe = rehearsal.passed[place]
        nth = rehearsal.passed[: place + 1].count(probe)
        said, status = room.stage.perform("live again", life, str(database), probe, nth)
        assert status == signal.SIGKILL
        # There may be less left to do, and then it came to its end.
        kills += any(word == REACHED for word, _ in said)
        markers.spoil(database, chance)
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
            yield f"{table}: {_shown(found, table, rows)}, which is not how recovery ends"


def _shown(found: State, table: str, wanted: list[list[object]] | None) -> str:
    here, there = found[table] or [], wanted or []
    extra = [row for row in here if row not in there]
    missing = [row for row in there if row not in here]
    return f"{extra[:_MOST_SHOWN]} too much and {missing[:_MOST_SHOWN]} too little"
