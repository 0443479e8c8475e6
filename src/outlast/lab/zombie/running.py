"""The flow of `lab zombie`: writers that are stopped where others wait, workers, single writes.

Every write of a zombie is refused, and not one row that is not its own changes. Stopped where
others wait for it, it is named within a second.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from outlast.lab.actors import Company
from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.zombie import inside, matrix, working

# Of more than a thousand combinations, how many are played when nobody says otherwise.
NATURAL_WRITES = 400


def run(plan: Plan, prelude: str = "") -> Findings:
    """Play the cases that a plan asks for; `prelude` runs in every process before it acts."""
    begun_at = time.monotonic()
    played: Counter[str] = Counter()
    with Company(prelude=prelude) as company:
        found = list(_played(plan, company, played))
    seconds = time.monotonic() - begun_at
    if plan.case is not None and not played:
        raise ValueError(f"no case of this experiment is called {plan.case!r}")
    return Findings("zombie", played.total(), found, seconds, plan.seed, dict(played))


def _played(plan: Plan, company: Company, played: Counter[str]) -> Iterator[Finding]:
    """Half of the time, or of the writes, then the small kinds, then the rest."""
    workers, writers = working.chosen_cases(plan), inside.chosen_cases(plan)
    writes = matrix.chosen_cases(plan)
    if plan.cases is not None and plan.case is None:
        chance = random.Random(plan.seed)
        workers = chance.sample(workers, min(len(workers), plan.cases // 10))
        writers = chance.sample(writers, min(len(writers), plan.cases // 5))
        writes = writes[: plan.cases - len(workers) - len(writers)]
    elif plan.seconds is None:
        writes = writes[:NATURAL_WRITES]
    half = plan if plan.seconds is None else replace(plan, seconds=plan.seconds / 2)
    yield from matrix.play(writes, half, company, played)
    plan.progress("writers that are stopped where others wait")
    yield from inside.play(writers, plan, company, played)
    plan.progress("workers that are stopped past their leases")
    yield from working.play(workers, plan, company, played)
    yield from matrix.play(writes[played["writes"] :], plan, company, played)
