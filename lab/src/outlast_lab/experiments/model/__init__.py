"""`outlast lab model`: a deterministic simulator that checks every step by a model.

Many workers, producers, operators and detectors share one real store, a virtual clock and a
seeded scheduler. In the *exact* simulation each call is made to the queue and to a reference
model, which must agree in all that can be read. In the *woven* one the calls of several processes
are interleaved at the boundaries of their transactions and broken off by crashes, and every
change is followed to somebody who may make it. A case that fails is repeated exactly by its seed,
and shrunk to a script that a person can read.
"""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan, quiet
from outlast_lab.experiments.model.script import parse
from outlast_lab.experiments.model.shrinking import shrunk
from outlast_lab.experiments.model.simulation import EXACT, KINDS, Run, drawn, repeated

__all__ = ["run"]

NATURAL_CASES = 160
ENOUGH_FAILING = 5
"""After so many failing cases there is nothing more to be learned."""

SHRINK_SECONDS = 60.0
LEAST_SHRINK_SECONDS = 5.0


def run(plan: Plan) -> Findings:
    """Simulate until the cases or the time are used up."""
    findings = Findings("model", 0, [], 0.0, plan.seed)
    steps = {EXACT: 0, "woven": 0}
    started = time.process_time()
    with quiet():
        for case in _cases(plan):
            is_enough = len(findings.violations) >= ENOUGH_FAILING
            if is_enough or (plan.time_is_up() and findings.cases):
                break
            done = _one(plan, case)
            findings.cases += 1
            steps[done.script.world] += len(done.script.steps)
            if done.broken is not None:
                findings.violations.append(_finding(plan, case, done))
            plan.progress(f"{findings.cases} cases, {sum(steps.values())} steps")
    findings.seconds = plan.elapsed_seconds()
    findings.figures = {
        "steps": sum(steps.values()),
        "steps_exact": steps[EXACT],
        "steps_woven": steps["woven"],
        "steps_per_cpu_second": round(
            sum(steps.values()) / max(0.001, time.process_time() - started)
        ),
    }
    return findings


def _cases(plan: Plan) -> Iterator[str]:
    """One case that was asked for, all of one kind ('woven calls'), or all kinds in turn."""
    kinds = list(KINDS)
    if plan.case is not None:
        kinds = [kind for kind in kinds if kind == tuple(plan.case.split())]
        if not kinds:
            yield plan.case
            return
    limit = plan.cases if plan.cases is not None else NATURAL_CASES
    for number in count():
        if number >= limit and (plan.cases is not None or plan.seconds is None):
            return
        world, profile = kinds[number % len(kinds)]
        yield f"{world} {profile} {number // len(kinds) + 1}"


def _one(plan: Plan, case: str) -> Run:
    """By its name, by the text of a script, or by the file that a script is kept in."""
    if "\n" in case:
        return repeated(plan.folder, parse(case), plan.seed)
    if tuple(case.split()[:-1]) in KINDS:
        return drawn(plan.folder, case, plan.seed)
    try:
        text = Path(case).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"there is no case {case!r}; give one like 'exact leases 7' or 'woven calls 7', all"
            " of a kind like 'woven calls', a script, or the file that a script is kept in"
        ) from error
    return repeated(plan.folder, parse(text), plan.seed)


def _finding(plan: Plan, case: str, failed: Run) -> Finding:
    """Shrunk within the time that is left, but never hastily."""
    left_seconds = SHRINK_SECONDS
    if plan.seconds is not None:
        left_seconds = min(left_seconds, plan.seconds - plan.elapsed_seconds())
    least = shrunk(
        failed,
        lambda script: repeated(plan.folder, script, plan.seed),
        max(LEAST_SHRINK_SECONDS, left_seconds),
    )
    evidence = plan.keep_evidence(case, (), script=str(least), drawn=str(failed))
    told = "\n".join(f"    {line}" for line in str(least).splitlines())
    return Finding(f"{least.broken}\n{told}", case, evidence)
