"""`lab io`, its flow: small disks filled, calls counted, failed one by one, and judged."""

import tempfile
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.experiments.io_faults import small_disks
from outlast_lab.experiments.io_faults.choosing import in_order, share_of, some_of_each_kind
from outlast_lab.experiments.io_faults.faults import Case, case_of, unharmed, unharmed_life
from outlast_lab.experiments.io_faults.stage import stages
from outlast_lab.experiments.io_faults.switch import Counted
from outlast_lab.record.scenarios import LIVES
from outlast_lab.stage.pool import Order, Pool

NATURAL_CASES = 600
_CALLS_FOR_A_DISK = 20
_PLAYED = "played"


NOT_MET = "the case was not met: no such call was made"
_NOT_FILLED = "the case was not met: the disk was not filled"


def run(plan: Plan) -> Findings:
    """Fail calls, and fill disks, until the plan is fulfilled."""
    findings = Findings("io", 0, [], 0.0, plan.seed)
    is_disk = plan.case in small_disks.CASES
    if plan.case is not None and not is_disk and unharmed_life(plan.case) is None:
        case_of(plan.case)
    if plan.case is None or is_disk:
        _fill_disks(plan, findings)
    if not is_disk:
        with tempfile.TemporaryDirectory(dir=plan.folder, prefix="io-") as folder:
            _fail_calls(plan, Path(folder), findings)
    findings.seconds = plan.elapsed_seconds()
    return findings


def fail_calls(plan: Plan, life: str, share: int = 0, of: int = 1) -> Findings:
    """Only calls of one life, one by one: one of several shares, no two of which have a case."""
    findings = Findings("io", 0, [], 0.0, plan.seed)
    with (
        tempfile.TemporaryDirectory(dir=plan.folder, prefix="io-") as folder,
        stages(Path(folder), 1) as pool,
    ):
        counted = _count(pool, [life], plan, findings)
        cases = share_of(in_order(counted, plan.seed), share, of)
        findings.figures |= _played(pool, cases, plan, findings)
    findings.seconds = plan.elapsed_seconds()
    return findings


def _fail_calls(plan: Plan, folder: Path, findings: Findings) -> None:
    """One case, or as many of all as there is time for."""
    one_life = unharmed_life(plan.case) if plan.case else None
    chosen = [one_life or case_of(plan.case).life] if plan.case else list(LIVES)
    with stages(folder, 1 if plan.case else 0) as pool:
        counted = _count(pool, chosen, plan, findings)
        if one_life is not None:
            findings.cases += 1
            return
        cases = [case_of(plan.case)] if plan.case else in_order(counted, plan.seed)
        findings.figures |= _played(pool, cases, plan, findings)
        findings.figures["possible cases"] = _possible(counted)


def _played(pool: Pool, cases: list[Case], plan: Plan, findings: Findings) -> Counter[str]:
    """Play until enough cases were met, or until the time is up; some of each kind in any case."""
    figures = Counter[str]()
    first = cases if plan.case else some_of_each_kind(cases)
    chosen = iter(dict.fromkeys([*first, *cases]))
    wanted = plan.cases or (NATURAL_CASES if plan.seconds is None else None)
    if plan.case is None and wanted is not None:
        wanted = findings.cases + wanted
    at_once, is_over = list(islice(chosen, _missing(wanted, findings, len(first)))), _never
    while at_once:
        orders = (Order("play", {"text": str(case)}) for case in at_once if not is_over())
        for order, answer in pool.do(orders):
            _note(plan, findings, order.arguments["text"], answer, figures)
            if figures[_PLAYED] % 50 == 0:
                told = f"{figures[_PLAYED]} calls failed, {len(findings.violations)} violations"
                plan.progress(told)
        is_over = plan.time_is_up
        at_once = [] if is_over() else list(islice(chosen, _missing(wanted, findings)))
    del figures[_PLAYED]
    return figures


def _never() -> bool:
    return False


def _missing(wanted: int | None, findings: Findings, most: int | None = None) -> int | None:
    """How many cases are still to be met, of those that are played at once."""
    if wanted is None:
        return most
    missing = max(wanted - findings.cases, 0)
    return missing if most is None else min(missing, most)


def _count(
    pool: Pool, lives: list[str], plan: Plan, findings: Findings
) -> dict[str, list[Counted]]:
    """The calls of each life that nothing befalls, which must be as good as it gets."""
    counted = {}
    orders = (Order("prepare", {"life": life}) for life in lives)
    for order, (calls, violations, left) in pool.do(orders):
        life = order.arguments["life"]
        counted[life] = [Counted(*call) for call in calls]
        if violations:
            findings.violations += plan.found(unharmed(life), [Path(left)], violations)
    return {life: counted[life] for life in lives}


def _possible(counted: dict[str, list[Counted]]) -> int:
    return len(in_order(counted, 0))


def _note(
    plan: Plan, findings: Findings, text: str, answer: dict[str, Any], figures: Counter[str]
) -> None:
    figures[_PLAYED] += 1
    if answer["struck"] is None:
        # Threads may come in another order than when the calls were counted.
        figures["calls not met"] += 1
        if plan.case is not None and not answer["violations"]:
            findings.violations.append(Finding(NOT_MET, text))
    else:
        findings.cases += 1
        figures["calls that ended as unknown"] += answer["unknown"]
        figures["calls that were refused"] += answer["refused"]
        figures["stores that had to be opened anew"] += answer["openings"] == 2
    if answer["violations"]:
        evidence = [Path(answer["evidence"])]
        findings.violations += plan.found(text, evidence, answer["violations"])


def _fill_disks(plan: Plan, findings: Findings) -> None:
    cases = [plan.case] if plan.case else small_disks.CASES
    if plan.cases is not None:
        cases = cases[: plan.cases // _CALLS_FOR_A_DISK]
    is_one_filled = False
    for case in cases:
        is_over = plan.seconds is not None and plan.elapsed_seconds() > plan.seconds / 4
        if plan.case is None and is_one_filled and is_over:
            findings.notes.append("there was no time to fill all the small disks")
            break
        told = small_disks.play(case, plan.folder, partial(plan.keep_evidence, case))
        is_one_filled |= told.was_full
        findings.cases += told.was_full
        findings.notes += told.notes
        if told.was_full:
            findings.figures[f"acknowledged on a full disk, {case}"] = told.acknowledged
        elif plan.case is not None and not told.violations:
            findings.violations.append(Finding(_NOT_FILLED, case))
        findings.violations += [Finding(what, case, told.evidence) for what in told.violations]
