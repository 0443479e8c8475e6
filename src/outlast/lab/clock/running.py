"""The flow of `lab clock`: the worlds that can be made here, and the cases that are played in them.

The processes of these cases really have such clocks. No lease that stands may be taken, and no
task of a holder that is gone may be missed.
"""

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from outlast.lab.actors import ActorRaised, Company, NoAnswer, fresh
from outlast.lab.clock.cases import CASES, SCRIPTS, STEADY, Case, worlds_of
from outlast.lab.clock.scene import Broken, Scene
from outlast.lab.clock.worlds import Missing, World
from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.history import read_history
from outlast.lab.invariants import violations
from outlast.lab.stored import foreign_stored

AT_ONCE = 4


def run(plan: Plan, prelude: str = "") -> Findings:
    """Play the cases that a plan asks for; `prelude` runs in every process before it acts."""
    begun_at = time.monotonic()
    with ExitStack() as stack:
        laboratory = _Laboratory(plan, prelude, stack)
        found = list(laboratory.play(_chosen(plan)))
    seconds = time.monotonic() - begun_at
    notes = sorted(laboratory.notes)
    figures: dict[str, int | float | str] = {"worlds": len(STEADY), "not tried": laboratory.skipped}
    return Findings("clock", laboratory.played, found, seconds, plan.seed, figures, notes)


def _chosen(plan: Plan) -> list[Case]:
    if plan.case is not None:
        named = [case for case in CASES if str(case) == plan.case]
        if not named:
            raise ValueError(f"no case of this experiment is called {plan.case!r}")
        return named
    cases = list(CASES)
    random.Random(plan.seed).shuffle(cases)
    return cases[: plan.cases]


class _Laboratory:
    """Plays cases, some at once, for they mostly wait."""

    def __init__(self, plan: Plan, prelude: str, stack: ExitStack) -> None:
        self._plan = plan
        self._prelude = prelude
        self._steady: dict[str, Company] = {}
        self._folder = fresh(plan.folder / "clock")
        self._stack = stack
        self.notes: set[str] = set()
        self.played = 0
        self.skipped = 0

    def play(self, cases: Sequence[Case]) -> Iterator[Finding]:
        """What the cases find."""
        for name in sorted({one for case in cases for one in (case.holder, case.rival)}):
            if name in STEADY:
                self._begin(name)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for found in pool.map(self._found, range(len(cases)), cases):
                yield from found

    def _begin(self, name: str) -> None:
        try:
            company = STEADY[name]().company(self._folder, self._prelude)
        except Missing as error:
            self.notes.add(str(error))
            return
        self._steady[name] = self._stack.enter_context(company)

    def _found(self, number: int, case: Case) -> list[Finding]:
        if self._plan.time_is_up():
            return []
        self._plan.progress(str(case))
        folder = fresh(self._folder / f"case-{number}")
        with ExitStack() as stack:
            try:
                words = self._played(case, folder, stack)
                self.played += 1
            except Missing as error:
                self.notes.add(str(error))
                self.skipped += 1
                return []
        kept = [self._plan.keep_evidence(str(case), [folder], what=what) for what in words]
        shutil.rmtree(folder, ignore_errors=True)
        return [Finding(what, str(case), where) for what, where in zip(words, kept, strict=True)]

    def _played(self, case: Case, folder: Path, stack: ExitStack) -> list[str]:
        worlds = worlds_of(case)
        companies: dict[int, Company] = {}
        for name, world in zip((case.holder, case.rival), worlds, strict=True):
            companies[id(world)] = self._company(name, world, folder, stack)
        scene = Scene(folder, lambda world: companies[id(world)])
        try:
            SCRIPTS[case.script](scene, worlds)
        except (Broken, NoAnswer, ActorRaised, TimeoutError) as error:
            return [str(error)]
        finally:
            scene.close()
        return [str(one) for one in violations(read_history(folder), foreign_stored(scene.path))]

    def _company(self, name: str, world: World, folder: Path, stack: ExitStack) -> Company:
        if name not in STEADY:
            return stack.enter_context(world.company(folder, self._prelude))
        if name not in self._steady:
            raise Missing(f"{name}: see above")
        return self._steady[name]
