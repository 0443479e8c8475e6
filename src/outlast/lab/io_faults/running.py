"""`lab io`, its flow: small disks filled, calls counted, failed one by one, and judged."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.io_faults import small_disks
from outlast.lab.io_faults.choosing import in_order
from outlast.lab.io_faults.faults import case_of
from outlast.lab.io_faults.pool import Pool
from outlast.lab.io_faults.switch import Counted
from outlast.lab.lives import LIVES

NATURAL_CASES = 600
_CALLS_FOR_A_DISK = 20


def run(plan: Plan) -> Findings:
    """Fail calls, and fill disks, until the plan is fulfilled."""
    findings = Findings("io", 0, [], 0.0, plan.seed)
    if plan.case is None or plan.case in small_disks.CASES:
        _fill_disks(plan, findings)
    if plan.case not in small_disks.CASES:
        with tempfile.TemporaryDirectory(dir=plan.folder, prefix="io-") as folder:
            _fail_calls(plan, Path(folder), findings)
    findings.seconds = plan.elapsed_seconds()
    return findings


def fail_calls(plan: Plan, life: str) -> Findings:
    """Only the calls of one life, one by one: a share of the experiment."""
    findings = Findings("io", 0, [], 0.0, plan.seed)
    with tempfile.TemporaryDirectory(dir=plan.folder, prefix="io-") as folder:
        _fail_calls(plan, Path(folder), findings, [life], stages=1)
    findings.seconds = plan.elapsed_seconds()
    return findings


def _fail_calls(
    plan: Plan,
    folder: Path,
    findings: Findings,
    lives: Sequence[str] = tuple(LIVES),
    stages: int = 0,
) -> None:
    chosen = [case_of(plan.case).life] if plan.case else list(lives)
    with Pool(folder, stages) as pool:
        counted = _count(pool, chosen, findings)
        cases = [case_of(plan.case)] if plan.case else in_order(counted, plan.seed)
        if plan.case is None and (plan.cases is not None or plan.seconds is None):
            cases = cases[: plan.cases or NATURAL_CASES]
        figures = Counter[str]()
        answers = pool.ask_all("play", [str(case) for case in cases], plan.time_is_up)
        for number, (text, answer) in enumerate(answers, 1):
            _note(plan, findings, text, answer, figures)
            if number % 50 == 0:
                plan.progress(f"{number} calls failed, {len(findings.violations)} violations")
        findings.figures |= {"possible cases": _possible(counted), **figures}


def _count(pool: Pool, lives: list[str], findings: Findings) -> dict[str, list[Counted]]:
    """The calls of each life that nothing befalls, which must be as good as it gets."""
    counted = {}
    for life, (calls, violations) in pool.ask_all("prepare", lives):
        counted[life] = [Counted(*call) for call in calls]
        findings.violations += [Finding(what, f"{life} without a fault") for what in violations]
    return {life: counted[life] for life in lives}


def _possible(counted: dict[str, list[Counted]]) -> int:
    return len(in_order(counted, 0))


def _note(
    plan: Plan, findings: Findings, text: str, answer: dict[str, Any], figures: Counter[str]
) -> None:
    if answer["struck"] is None:
        # Threads may come in another order than when the calls were counted.
        figures["calls not met"] += 1
    else:
        findings.cases += 1
        figures["calls that ended as unknown"] += answer["unknown"]
        figures["calls that were refused"] += answer["refused"]
        figures["stores that had to be opened anew"] += answer["openings"] == 2
    if answer["violations"]:
        evidence = plan.keep_evidence(text, [Path(answer["evidence"])])
        findings.violations += [Finding(what, text, evidence) for what in answer["violations"]]


def _fill_disks(plan: Plan, findings: Findings) -> None:
    cases = [plan.case] if plan.case else small_disks.CASES
    if plan.cases is not None:
        cases = cases[: plan.cases // _CALLS_FOR_A_DISK]
    for case in cases:
        if plan.seconds is not None and plan.elapsed_seconds() > plan.seconds / 4:
            findings.notes.append("there was no time to fill all the small disks")
            break
        told = small_disks.play(case, plan.folder)
        findings.cases += told.was_full
        findings.notes += told.notes
        findings.figures[f"acknowledged on a full disk, {case}"] = told.acknowledged
        findings.violations += [Finding(what, case) for what in told.violations]
