"""What a zombie tries, what became of its task meanwhile, and when it was stopped."""

import random
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from outlast_lab.acting import AT_THE_CLOCK

BEFORE_ASKING = "stopped before it asked"
BEFORE_WRITING = "stopped between its look at the clock and its transaction"
WHILE_WRITING = "stopped again inside its own transaction"
MOMENTS = (BEFORE_ASKING, BEFORE_WRITING, WHILE_WRITING)
STOPS_AT = {BEFORE_WRITING: AT_THE_CLOCK, WHILE_WRITING: "*.begun"}

HOLDS = ("claim", "prefetch")


class Verb(NamedTuple):
    """A call that a holder can make: of its lease, or of its app if it names the task."""

    name: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    is_refused: bool = True
    """Whether it must be refused; what only speaks of the caller itself need not be."""
    is_end: bool = True
    """Whether its task is no longer held once it was accepted."""


VERBS = {
    "renew": Verb("renew", is_end=False),
    "checkpoint": Verb("checkpoint", ("tool_executed", {"by": "the zombie"}), is_end=False),
    "complete": Verb("complete", ("the zombie's result",)),
    "complete_many": Verb("complete_many", ("the zombie's result",)),
    "complete_many with a live one": Verb("complete_many", ("the zombie's result",)),
    "fail": Verb("fail", ("the zombie's error",)),
    "fail for good": Verb("fail", ("the zombie's error",), (("retry", False),)),
    "release": Verb("release"),
    "release for later": Verb("release", (), (("delay", "1m"),)),
    "park": Verb("park", ("approval",)),
    # Notes in the worker's own lock file what it is at, or in the row if it is still its own.
    "start": Verb("start", is_refused=False, is_end=False),
    # Dates the worker's own row.
    "heartbeat": Verb("heartbeat", is_refused=False, is_end=False),
}
WITH_A_LIVE_ONE = "complete_many with a live one"

# What a verb that makes no transaction cannot be stopped inside of.
_WITHOUT_TRANSACTION = frozenset({"start"})
_WITHOUT_CLOCK = frozenset({"start"})


class Case(NamedTuple):
    """One zombie's one write."""

    verb: str
    meanwhile: str
    moment: str
    hold: str

    def __str__(self) -> str:
        """By this it is repeated."""
        return f"{self.verb} after {self.meanwhile}, {self.moment}, by {self.hold}"


def all_cases(meanwhile: Sequence[str], needs_the_zombie: frozenset[str]) -> Iterator[Case]:
    """Every combination that can be."""
    for state in meanwhile:
        for moment in MOMENTS:
            if moment == BEFORE_WRITING and state in needs_the_zombie:
                continue
            for hold in HOLDS:
                for verb in VERBS:
                    if moment == WHILE_WRITING and verb in _WITHOUT_TRANSACTION:
                        continue
                    if moment == BEFORE_WRITING and verb in _WITHOUT_CLOCK:
                        continue
                    yield Case(verb, state, moment, hold)


def rounds(cases: Sequence[Case], seed: int) -> list[Case]:
    """All of them, by a seed: each verb after each state once, then each once more, and so on.

    Within a round the states take turns, so that even a short run sees every one of them.
    """
    chance = random.Random(seed)
    left: dict[str, dict[str, list[Case]]] = {}
    for case in chance.sample(cases, len(cases)):
        left.setdefault(case.meanwhile, {}).setdefault(case.verb, []).append(case)
    ordered: list[Case] = []
    while left:
        ordered += _dealt([[alike.pop() for alike in verbs.values()] for verbs in left.values()])
        for state in list(left):
            left[state] = {verb: alike for verb, alike in left[state].items() if alike}
            if not left[state]:
                del left[state]
    return ordered


def _dealt(hands: Sequence[Sequence[Case]]) -> Iterator[Case]:
    """One of each hand, then again one of each, until all are out."""
    for dealt in zip_longest(*hands):
        yield from (case for case in dealt if case is not None)
