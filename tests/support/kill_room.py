"""The room of the kill experiment, for the tests that try its cases one by one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast_lab.kill import case_named
from outlast_lab.kill.cases import Judgement, Room
from outlast_lab.kill.stage import Stage

MOST_TRIES = 30


@contextmanager
def a_room(folder: Path, seed: int = 1) -> Iterator[Room]:
    """A stage with a folder of its own."""
    with Stage(folder / "stage.log") as stage:
        yield Room(stage, folder / "cases", seed)


def tried(room: Room, text: str) -> Judgement:
    """One case, from its text."""
    with room.fresh(text) as database:
        return case_named(text)(room, database, text)


def assert_sound(room: Room, text: str, kills: int = 1) -> None:
    """The case broke nothing, and it did kill."""
    judgement = tried(room, text)
    assert not judgement.troubles, f"{text}: {judgement.troubles[:3]}"
    assert judgement.kills >= kills, text


def assert_sound_until_killed(room: Room, sort: str, kills: int = 1) -> None:
    """Cases of a sort broke nothing, until so many killed: some come when all is over."""
    done = 0
    for number in range(1, 1 + MOST_TRIES):
        judgement = tried(room, f"{sort} {number}")
        assert not judgement.troubles, f"{sort} {number}: {judgement.troubles[:3]}"
        done += judgement.kills
        if done >= kills:
            return
    raise AssertionError(f"{sort}: {done} killed, the others had ended before")
