"""The sweep: every life is killed at every passing of every probe, and inside its writes.

What is left is compared, row by row, with a life that nobody cut short: exactly the commits that
had returned are there. That is stronger than the invariants, which judge it as well.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

from outlast.app.app import Outlast
from outlast.errors import OutlastError
from outlast_lab.experiments.kill.cases import Cases, Judgement, Room, record_lines, remember
from outlast_lab.experiments.kill.converging import Again, lived_again
from outlast_lab.experiments.kill.judging import (
    acknowledged,
    complaints,
    of_the_dead,
    troubles_of_going_on,
)
from outlast_lab.experiments.kill.stage import Rehearsal
from outlast_lab.experiments.kill.state import State, difference, state_of
from outlast_lab.experiments.kill.writes import HALF, WHOLE
from outlast_lab.judge.foreign_reader import copied, copied_stored
from outlast_lab.record.recovery_scenarios import ALL_LIVES
from outlast_lab.record.scenarios import MIGRATING
from outlast_lab.record.set_clock import SetClock

KIND = "probe"
AFTER_DAYS = 2

_NAME = re.compile(rf"{KIND} (.+)/(.+)#(\d+)")


def name_of(life: str, probe: str, nth: int) -> str:
    """The text that names a case."""
    return f"{KIND} {life}/{probe}#{nth}"


def named(text: str) -> bool:
    """Whether a text names a case of this kind."""
    match = _NAME.fullmatch(text)
    return match is not None and match[1] in ALL_LIVES and match[2] in points_of(match[1])


def points_of(life: str) -> list[str]:
    """The points at which a life is killed: its probes, and its writes if they are watched."""
    writes = [HALF, WHOLE] if ALL_LIVES[life].writes_from else []
    return [*sorted(ALL_LIVES[life].probes), *writes]


def cases(room: Room) -> Cases:
    """Every passing of every point of every life: all first passings first, in random order."""
    found = [
        (nth, life, probe)
        for life in sorted(ALL_LIVES)
        for probe in points_of(life)
        for nth in range(1, max(room.rehearsed(life).passed.count(probe), 1) + 1)
    ]
    room.chance("order of the sweep").shuffle(found)
    for nth, life, probe in sorted(found, key=lambda one: one[0]):
        yield name_of(life, probe, nth), try_case


def try_case(room: Room, database: Path, text: str) -> Judgement:
    """Kill one life at one passing of one point, and judge what is left."""
    match = _NAME.fullmatch(text)
    assert match is not None
    life, probe, nth = match[1], match[2], int(match[3])
    rehearsal = room.rehearsed(life)
    if nth > rehearsal.passed.count(probe):
        told = f"the case was not met: the life {life!r} does not pass {probe} {nth} times"
        return Judgement(0, [told], is_met=False)
    death = room.stage.kill(life, database, probe, nth)
    record_lines(database, death.lines)
    remember(database)
    if death.signal != signal.SIGKILL or not death.has_reached:
        return Judgement(0, [f"it ended by {death.signal} and not at the probe", *death.raised])
    troubles = [*differences(rehearsal, database, probe, nth)]
    found = copied_stored(database)
    history = of_the_dead(death.lines)
    troubles += complaints(history, found)
    again = Again(0, [])
    if ALL_LIVES[life].converges:
        again = lived_again(room, database, text, life)
        troubles += again.troubles
    if probe in MIGRATING:
        troubles += _next_opening(database, rehearsal.states[-1])
    else:
        troubles += troubles_of_going_on(database, found, SetClock(AFTER_DAYS))
    return Judgement(1 + again.kills, troubles, acknowledged(history))


def differences(rehearsal: Rehearsal, database: Path, probe: str, nth: int) -> Iterator[str]:
    """What is not as the commits before that moment, and no others, left it.

    Inside a write the commit that is under way may have happened or not.
    """
    with copied(database) as copy:
        found = state_of(copy)
    before = rehearsal.commits_before(probe, nth)
    if found in rehearsal.states[before : before + (2 if probe in (HALF, WHOLE) else 1)]:
        return
    wanted = rehearsal.states[before]
    for table in wanted:
        if found[table] != wanted[table]:
            told = difference(found[table], wanted[table])
            yield f"{table}: found {told} instead of what was committed"


def _next_opening(database: Path, whole: State) -> Iterator[str]:
    """A migration that was killed is completed by the next opening, and the store serves."""
    try:
        with Outlast(database) as app:
            app.enqueue("work", id="after")
            while leases := app.claim("next"):
                app.complete_many([(lease, None) for lease in leases])
            if (status := app.get("after").status) != "completed":
                yield f"after the migration a task is {status}"
    except OutlastError as error:
        yield f"it cannot be opened again: {type(error).__name__}: {error}"
        return
    after = state_of(database)
    yield from (
        f"the {part} is not that of a whole migration"
        for part in ("schema", "migrations")
        if after[part] != whole[part]
    )
    yield from (str(one) for one in copied_stored(database).faults)
