"""What a round of chaos consists of: who takes part, and what is done to them when; from a seed."""

import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

Role = Literal["crowd", "worker", "coroutines", "keeper", "commands", "last"]
What = Literal["kill", "stop", "leave", "crash", "suspend"]
Aim = Literal["itself", "family", "one below"]

FEWEST_PROCESSES = 4
MOST_PROCESSES = 16
LEASE_SECONDS = 3.0
LONGEST_STOP_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 0.5

SUSPEND_SECONDS = 0.2
NIGHT_SECONDS = 8 * 3600

# In every second round the wall clock is not the host's.
_OWN_CLOCK_EVERY = 2

_WHATS: tuple[What, ...] = ("kill", "stop", "leave")
_AIMS: tuple[Aim, ...] = ("itself", "family", "one below")
# Every round has one of each of these.
_FIRST: tuple[Role, ...] = ("crowd", "worker", "keeper", "coroutines")
_OTHERS: tuple[Role, ...] = ("crowd", "worker", "worker", "coroutines", "commands", "keeper")


class Program(NamedTuple):
    """One process: its name, what it does, in how many threads, and how patient its writes are."""

    name: str
    role: Role
    threads: int
    write_timeout_seconds: float

    def workers(self) -> list[str]:
        """The names under which it speaks to the store."""
        return [self.name, *(f"{self.name}.{n}" for n in range(self.threads))]


class Deed(NamedTuple):
    """Something that is done to a place in the crowd, to whoever stands there at that moment.

    A crash kills everybody at once, and all places are taken anew together. A suspend stops
    everybody, and when they go on their wall clocks have jumped.
    """

    at_seconds: float
    place: int
    what: What
    aim: Aim
    seconds: float
    """How long it is stopped, or how long its place stays empty."""


class Round(NamedTuple):
    """The programs by place, and the deeds in their order."""

    number: int
    seconds: float
    programs: list[Program]
    deeds: list[Deed]
    has_own_clock: bool = False
    """Whether the wall clock of its processes is set by the supervisor."""

    def again(self, place: int, life: int) -> Program:
        """The program of a place's nth process: the same, and from the second on a new name."""
        first = self.programs[place]
        return first._replace(name=f"{first.name}-{life}") if life else first


def round_of(seed: int, number: int, seconds: float) -> Round:
    """The same seed, number and length make the same round."""
    dice = random.Random(f"chaos {seed} {number}")
    count = dice.randint(FEWEST_PROCESSES, MOST_PROCESSES)
    roles = [*_FIRST, *(dice.choice(_OTHERS) for _ in range(count - len(_FIRST)))]
    programs = [
        Program(f"p{place}", role, dice.randint(1, 4), dice.choice([1.0, 10.0]))
        for place, role in enumerate(roles)
    ]
    has_own_clock = number % _OWN_CLOCK_EVERY == 0
    deeds = [*_deeds(dice, count, seconds), *_deeds_to_all(dice, seconds, has_own_clock)]
    return Round(number, seconds, programs, sorted(deeds), has_own_clock)


def _deeds_to_all(dice: random.Random, seconds: float, has_own_clock: bool) -> Iterator[Deed]:
    yield Deed(seconds * dice.uniform(0.3, 0.5), 0, "crash", "family", LONGEST_PAUSE_SECONDS / 5)
    if has_own_clock:
        for part in (0.2, 0.7):
            yield Deed(seconds * part, 0, "suspend", "family", SUSPEND_SECONDS)


def _deeds(dice: random.Random, count: int, seconds: float) -> list[Deed]:
    """The larger the crowd, the more often: each place is struck every few seconds."""
    deeds, at_seconds = [], 0.3
    while at_seconds < seconds:
        what = dice.choices(_WHATS, [9, 9, 2])[0]
        aim = dice.choices(_AIMS, [6, 2, 2])[0]
        longest = LONGEST_STOP_SECONDS if what == "stop" else LONGEST_PAUSE_SECONDS
        # Mostly short; now and then past the lease.
        length = longest * dice.random() ** 2
        if what == "stop" and dice.random() < 0.1:
            length = LEASE_SECONDS * 1.3
        deeds.append(Deed(at_seconds, dice.randrange(count), what, aim, length))
        at_seconds += dice.expovariate(count / 4)
    return deeds
