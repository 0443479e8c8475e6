"""Which of the changes that no sync made safe have reached the disk when power fails.

Each choice has a text that names it, and gives the same image again from the same recording. The
numbers in it are those of the events.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from outlast.errors import InvalidInput
from outlast_lab.power.disk import Change, Player
from outlast_lab.power.recording import SYNCS, TOLD, WRITE, Recording

SECTOR_BYTES = 512

NONE, ALL = "none", "all"
HOW_CASES_LOOK = "a case is a life, or a text such as 'settle/cut 41/drop 38'"

_BYTE_TEARS = 3
_RANDOM_SUBSETS = 4
_HARMED_IN_PLACE = 2


class Case(NamedTuple):
    """One image to be judged: where power fails, and what of the unsynced changes is there."""

    life: str
    cut: int
    choice: str


def case_text(mode: str, case: Case) -> str:
    """The text that replays a case; the mode is that of a control, or nothing."""
    text = f"{case.life}/cut {case.cut}/{case.choice}"
    return f"{mode}/{text}" if mode else text


def parse_case(text: str) -> tuple[str, Case]:
    """The case that a text names, and the mode."""
    *mode, life, cut, choice = ["", "", "", *text.split("/")][-max(3, text.count("/") + 1) :]
    number = cut.removeprefix("cut ")
    if len(mode) > 1 or number == cut or not (number.isascii() and number.isdecimal()):
        raise InvalidInput(f"{text!r} names no case of power: {HOW_CASES_LOOK}")
    return "".join(mode), Case(life, int(number), choice)


def kept(choice: str, changes: Sequence[Change]) -> list[Change]:
    """What of the changes reaches the disk, in the order it happened.

    none, all
    prefix N     all up to N
    only N       N alone
    drop N       all but N
    tear N at K  all before N, and the first K bytes of N
    hole N at K  all, but of N only the first K bytes
    junk N S     all, but in N's place there are random bytes by seed S
    zeros N      all, but of N and what its file was given after it only the size
    sectors N S  all, but of N only some sectors, chosen by seed S
    some S       any subset, single writes torn, chosen by seed S
    """
    word, *numbers = choice.replace(" at ", " ").split() or [""]
    if choice in (NONE, ALL):
        return list(changes) if word == ALL else []
    try:
        first, *rest = map(int, numbers)
        return _CHOICES[word](changes, first, *rest)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"there is no choice {choice!r} of what reaches a disk: {HOW_CASES_LOOK}"
        ) from error


def _prefix(changes: Sequence[Change], last: int) -> list[Change]:
    return [one for one in changes if one.number <= last]


def _only(changes: Sequence[Change], number: int) -> list[Change]:
    return [one for one in changes if one.number == number]


def _drop(changes: Sequence[Change], number: int) -> list[Change]:
    return [one for one in changes if one.number != number]


def _tear(changes: Sequence[Change], number: int, length: int) -> list[Change]:
    return _hole(_prefix(changes, number), number, length)


def _hole(changes: Sequence[Change], number: int, length: int) -> list[Change]:
    return [
        one._replace(data=one.data[:length]) if one.number == number else one for one in changes
    ]


def _junk(changes: Sequence[Change], number: int, seed: int) -> list[Change]:
    chance = random.Random(f"junk {number} {seed}")
    return [
        one._replace(data=chance.randbytes(len(one.data))) if one.number == number else one
        for one in changes
    ]


def _zeros(changes: Sequence[Change], number: int) -> list[Change]:
    """A file system may write down the new size of a file before its data."""
    inodes = {one.inode for one in changes if one.number == number}
    return [
        one._replace(data=bytes(len(one.data)))
        if one.inode in inodes and one.number >= number
        else one
        for one in changes
    ]


def _sectors(changes: Sequence[Change], number: int, seed: int) -> list[Change]:
    chance = random.Random(f"sectors {number} {seed}")
    found: list[Change] = []
    for one in changes:
        parts = _in_sectors(one) if one.number == number else [one]
        found += parts if len(parts) == 1 else [part for part in parts if chance.random() < 0.5]
    return found


def _some(changes: Sequence[Change], seed: int) -> list[Change]:
    chance = random.Random(f"some {seed}")
    share, found = chance.random(), []
    for one in changes:
        if chance.random() >= share:
            continue
        if one.kind == WRITE and len(one.data) > 1 and chance.random() < 0.1:
            one = one._replace(data=one.data[: chance.randrange(1, len(one.data))])  # noqa: PLW2901
        found.append(one)
    return found


_CHOICES: dict[str, Callable[..., list[Change]]] = {
    "prefix": _prefix, "only": _only, "drop": _drop, "tear": _tear, "hole": _hole,
    "junk": _junk, "zeros": _zeros, "sectors": _sectors, "some": _some,
}  # fmt: skip


def _in_sectors(change: Change) -> list[Change]:
    """A write, taken apart at the boundaries of the disk's sectors."""
    places = [0, *_boundaries(change), len(change.data)]
    return [
        change._replace(at=change.at + start, data=change.data[start:end])
        for start, end in pairwise(places)
    ]


def _boundaries(change: Change) -> range:
    """Where in a write's data a sector of the file ends."""
    return range(SECTOR_BYTES - change.at % SECTOR_BYTES, len(change.data), SECTOR_BYTES)


class Choosing:
    """All cases of one recording: those that are always judged, and the many others."""

    def __init__(self, life: str, recording: Recording, seed: int) -> None:
        self._life = life
        self._recording = recording
        self._seed = seed
        self._seen: set[tuple[int, int, int]] = set()

    def always(self) -> list[Case]:
        """At each cut: all is lost, all is there."""
        cuts = range(len(self._recording.events) + 1)
        return [Case(self._life, cut, choice) for cut in cuts for choice in (ALL, NONE)]

    def others(self) -> list[Case]:
        """Everything else, in an order by the seed."""
        player, found, told = Player(self._recording), list[Case](), 0
        for cut in range(len(self._recording.events) + 1):
            disk = player.at(cut)
            event = self._recording.events[cut - 1] if cut else None
            told += event is not None and event.kind == TOLD
            if not disk.changes or (event is not None and event.kind in SYNCS):
                continue
            chance = random.Random(f"{self._seed} {self._life} {cut}")
            choices = self._subsets(disk.changes, disk.version, told)
            found += [Case(self._life, cut, choice) for choice in choices]
            found += [Case(self._life, cut, choice) for choice in _harmed(disk.changes, chance)]
            if event is not None and event.kind == WRITE:
                torn = _torn(disk.changes[-1], chance)
                found += [Case(self._life, cut, choice) for choice in torn]
        random.Random(f"{self._seed} {self._life}").shuffle(found)
        return found

    def _subsets(self, changes: list[Change], version: int, told: int) -> Iterator[str]:
        """Prefixes, single ones, all but one: each set once for the same acknowledgements."""
        bits = [1 << one.number for one in changes]
        whole = sum(bits)
        sofar = 0
        for bit, change in zip(bits, changes, strict=True):
            sofar |= bit
            for word, chosen in (("prefix", sofar), ("only", bit), ("drop", whole & ~bit)):
                if chosen not in (0, whole) and (version, told, chosen) not in self._seen:
                    self._seen.add((version, told, chosen))
                    yield f"{word} {change.number}"


def _torn(last: Change, chance: random.Random) -> Iterator[str]:
    """The last write, cut off at each sector and at some bytes."""
    places = set(_boundaries(last))
    if len(last.data) > 1:
        places |= {chance.randrange(1, len(last.data)) for _ in range(_BYTE_TEARS)}
    return (f"tear {last.number} at {place}" for place in sorted(places))


def _harmed(changes: list[Change], chance: random.Random) -> Iterator[str]:
    """Random subsets, and writes in the middle of others that are harmed."""
    for _ in range(_RANDOM_SUBSETS):
        yield f"some {chance.randrange(10**6)}"
    writes = [one for one in changes if one.kind == WRITE and len(one.data) > 1]
    for one in chance.sample(writes, min(len(writes), _HARMED_IN_PLACE)):
        yield f"hole {one.number} at {chance.randrange(1, len(one.data))}"
        yield f"junk {one.number} {chance.randrange(10**6)}"
        yield f"zeros {one.number}"
        if len(one.data) > SECTOR_BYTES:
            yield f"sectors {one.number} {chance.randrange(10**6)}"
