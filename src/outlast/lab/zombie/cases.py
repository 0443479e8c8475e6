"""What a zombie tries, what became of its task meanwhile, and when it was stopped."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from outlast.lab.acting import AT_THE_CLOCK

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


VERBS = {
    "renew": Verb("renew"),
    "checkpoint": Verb("checkpoint", ("tool_executed", {"by": "the zombie"})),
    "complete": Verb("complete", ("the zombie's result",)),
    "complete_many": Verb("complete_many", ("the zombie's result",)),
    "complete_many with a live one": Verb("complete_many", ("the zombie's result",)),
    "fail": Verb("fail", ("the zombie's error",)),
    "fail for good": Verb("fail", ("the zombie's error",), (("retry", False),)),
    "release": Verb("release"),
    "release for later": Verb("release", (), (("delay", "1m"),)),
    "park": Verb("park", ("approval",)),
    # Notes in the worker's own lock file what it is at, or in the row if it is still its own.
    "start": Verb("start", is_refused=False),
    # Dates the worker's own row.
    "heartbeat": Verb("heartbeat", is_refused=False),
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

    Within a round those of one state stand together, for they share a stage. The first round takes
    the states as they are listed, the most telling ones first.
    """
    chance = random.Random(seed)
    pairs: dict[tuple[str, str], list[Case]] = {}
    for case in chance.sample(cases, len(cases)):
        pairs.setdefault((case.meanwhile, case.verb), []).append(case)
    states = list(dict.fromkeys(case.meanwhile for case in cases))
    ordered: list[Case] = []
    while pairs:
        ordered += sorted(
            (alike.pop() for alike in pairs.values()),
            key=lambda case: states.index(case.meanwhile),
        )
        pairs = {pair: alike for pair, alike in pairs.items() if alike}
        chance.shuffle(states)
    return ordered
