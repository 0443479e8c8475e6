"""The flow of `lab zombie`: writers that are stopped where others wait, workers, single writes.

Every write of a zombie is refused, and not one row that is not its own changes. Stopped where
others wait for it, it is named within a second.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.experiments.zombie import inside, matrix, working
from outlast_lab.stage.actors import Company

# Of more than a thousand combinations, how many are played when nobody says otherwise.
NATURAL_WRITES = 400
# By then it is plain that something is wrong; every further write might wait for its full time.
MOST_FINDINGS = 20
_EXAMPLE = str(matrix.CASES[0])


def run(plan: Plan, prelude: str = "") -> Findings:
    """Play the cases that a plan asks for; `prelude` runs in every process before it acts."""
    played: Counter[str] = Counter()
    with Company(prelude=prelude) as company:
        found = list(islice(_played(plan, company, played), MOST_FINDINGS))
    if plan.case is not None and not played:
        raise InvalidInput(
            f"no case of this experiment is called {plan.case!r}; one reads {_EXAMPLE!r}"
        )
    notes = (
        ["the rest was not tried, after so many findings"] if len(found) == MOST_FINDINGS else []
    )
    seconds = plan.elapsed_seconds()
    return Findings("zombie", played.total(), found, seconds, plan.seed, dict(played), notes)


def _played(plan: Plan, company: Company, played: Counter[str]) -> Iterator[Finding]:
    """Half of the time, or of the writes, then the small kinds, then the rest."""
    workers = [case for case in working.CASES if plan.case in (None, str(case))]
    writers = [case for case in inside.CASES if plan.case in (None, str(case))]
    writes = matrix.chosen_cases(plan)
    if plan.cases is not None and plan.case is None:
        chance = random.Random(plan.seed)
        workers = chance.sample(workers, min(len(workers), plan.cases // 10))
        writers = chance.sample(writers, min(len(writers), plan.cases // 5))
        writes = writes[: plan.cases - len(workers) - len(writers)]
    elif plan.seconds is None:
        writes = writes[:NATURAL_WRITES]
    left = iter(writes)
    half = plan if plan.seconds is None else replace(plan, seconds=plan.seconds / 2)
    yield from matrix.play(left, half, company, played)
    plan.progress("writers that are stopped where others wait")
    yield from inside.play(writers, plan, company, played)
    plan.progress("workers that are stopped past their leases")
    yield from working.play(workers, plan, company, played)
    yield from matrix.play(left, plan, company, played)
