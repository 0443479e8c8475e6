"""Which of all possible cases are tried, and in which order: some of everything comes first."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping

from outlast.lab.io_faults.faults import Case, faults_at
from outlast.lab.io_faults.switch import Counted


def in_order(counted: Mapping[str, Iterable[Counted]], seed: int) -> list[Case]:
    """All cases, so that the first of them hit as many different things as possible.

    One after the other, each sort of fault of each call of each operation of each life has its
    turn, at a call that the seed chooses; then each again, at another.
    """
    sorts: dict[tuple[str, ...], list[Case]] = defaultdict(list)
    for life, calls in counted.items():
        for call, nth, operation in calls:
            for fault in faults_at(call, nth):
                sort = (life, operation, call, fault.how, fault.how_long)
                sorts[sort].append(Case(life, fault))
    chance = random.Random(seed)
    for cases in sorts.values():
        chance.shuffle(cases)
    ranked = [
        (rank, chance.random(), case) for cases in sorts.values() for rank, case in enumerate(cases)
    ]
    return [case for _, _, case in sorted(ranked, key=lambda one: one[:2])]
