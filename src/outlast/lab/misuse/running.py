"""Misuse: what programs and people do to a store that nobody should, in the user's own environment.

Each case says what must happen: a refusal in one sentence by the right class of error, or nothing
at all. It plays in a process of its own, and the store that is left is judged like any other.
"""

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

from outlast.errors import InvalidInput
from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.misuse.cases import CASES
from outlast.lab.misuse.stage import Stage

AT_ONCE = 2


def run(plan: Plan) -> Findings:
    """All cases, or as many as there is time for; in an order that the seed decides."""
    names = _chosen(plan)
    theatre = Theatre(plan, len(names))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(theatre.play, names):
            pass
    theatre.close()
    return Findings(
        "misuse",
        theatre.played,
        theatre.found,
        plan.elapsed_seconds(),
        plan.seed,
        {"cases that cannot be tried here": len(theatre.notes)},
        sorted(theatre.notes),
    )


def _chosen(plan: Plan) -> list[str]:
    if plan.case is not None:
        if plan.case not in CASES:
            raise InvalidInput(
                f"there is no case {plan.case!r} of misuse; leave --case out for all"
            )
        return [plan.case]
    names = list(CASES)
    random.Random(plan.seed).shuffle(names)
    return names[: plan.cases]


class Theatre:
    """Stages, one for each thread, and what was seen on them."""

    def __init__(self, plan: Plan, total: int) -> None:
        self.played = 0
        self.found: list[Finding] = []
        self.notes: list[str] = []
        self._plan = plan
        self._total = total
        self._local = local()
        self._stages: list[Stage] = []

    def play(self, name: str) -> None:
        """One case, unless the time is up."""
        plan = self._plan
        if plan.time_is_up():
            return
        folder = plan.folder / f"case {list(CASES).index(name)}"
        folder.mkdir()
        verdict = self._stage().play(name, folder)
        if verdict["note"]:
            self.notes.append(f"{name}: {verdict['note']}")
        else:
            self.played += 1
        for what in verdict["broken"]:
            self.found.append(self._finding(name, what, folder))
        shutil.rmtree(folder, ignore_errors=True)
        plan.progress(f"{self.played} of {self._total} cases, {len(self.found)} violations")

    def _finding(self, name: str, what: str, folder: Path) -> Finding:
        evidence = self._plan.keep_evidence(name, folder.iterdir(), broken=what)
        return Finding(f"it {what}; what must happen: it {CASES[name].must}", name, evidence)

    def _stage(self) -> Stage:
        stage: Stage | None = getattr(self._local, "stage", None)
        if stage is None:
            stage = self._local.stage = Stage()
            self._stages.append(stage)
        return stage

    def close(self) -> None:
        """The last curtain."""
        for stage in self._stages:
            stage.close()
