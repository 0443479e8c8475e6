"""Which of all possible cases are tried, and in which order: some of everything comes first."""

import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from outlast_lab.io_faults.faults import Case, faults_at
from outlast_lab.io_faults.switch import Counted

# So many of each kind of call are tried whatever the time.
LEAST_OF_EACH_KIND = 2


def some_of_each_kind(cases: Sequence[Case]) -> list[Case]:
    """The first cases of each kind of call, of different lives where there are such."""
    chosen: dict[str, list[Case]] = defaultdict(list)
    used: Counter[str] = Counter()
    for kind in dict.fromkeys(case.fault.kind for case in cases):
        fitting = [case for case in cases if case.fault.kind == kind]
        while fitting and len(chosen[kind]) < LEAST_OF_EACH_KIND:
            case = min(fitting, key=lambda one: used[one.life])
            used[case.life] += 1
            chosen[kind].append(case)
            fitting.remove(case)
    return [case for some in chosen.values() for case in some]


def share_of(cases: Iterable[Case], number: int, of: int) -> list[Case]:
    """One of several shares: a case belongs to exactly one, whatever else there is to try."""
    return [case for case in cases if zlib.crc32(str(case).encode()) % of == number]


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
