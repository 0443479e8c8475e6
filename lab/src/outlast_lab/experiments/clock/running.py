"""The flow of `lab clock`: the worlds that can be made here, and the cases that are played in them.

The processes of these cases really have such clocks. No lease that stands may be taken, and no
task of a holder that is gone may be missed.
"""

import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from outlast.errors import InvalidInput
from outlast_lab.experiment import Broken, Finding, Findings, Plan
from outlast_lab.experiments.clock.cases import CASES, SCRIPTS, STEADY, Case, worlds_of
from outlast_lab.experiments.clock.scene import Scene
from outlast_lab.experiments.clock.worlds import Missing, World
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import read_history
from outlast_lab.stage.actors import ActorRaised, Company, NoAnswer, fresh, played_at_once


def run(plan: Plan, prelude: str = "") -> Findings:
    """Play the cases that a plan asks for; `prelude` runs in every process before it acts."""
    with ExitStack() as stack:
        laboratory = _Laboratory(plan, prelude, stack)
        found = list(laboratory.play(_chosen(plan)))
    seconds, notes = plan.elapsed_seconds(), sorted(laboratory.notes)
    figures: dict[str, int | float | str] = {
        "worlds": len(laboratory.worlds),
        "not tried": laboratory.skipped,
    }
    return Findings("clock", laboratory.played, found, seconds, plan.seed, figures, notes)


def _chosen(plan: Plan) -> list[Case]:
    if plan.case is not None:
        named = [case for case in CASES if str(case) == plan.case]
        if not named:
            raise InvalidInput(
                f"no case of this experiment is called {plan.case!r}; one reads {str(CASES[0])!r}"
            )
        return named
    cases = list(CASES)
    random.Random(plan.seed).shuffle(cases)
    firsts = set(_first_of_each_script(cases).values())
    return sorted(cases, key=lambda case: case not in firsts)[: plan.cases]


def _first_of_each_script(cases: Sequence[Case]) -> dict[str, Case]:
    """These are played whatever the time."""
    return {case.script: case for case in reversed(cases)}


class _Laboratory:
    """Plays cases, some at once, for they mostly wait."""

    def __init__(self, plan: Plan, prelude: str, stack: ExitStack) -> None:
        self._plan = plan
        self._prelude = prelude
        self._steady: dict[str, Company] = {}
        self._always: set[Case] = set()
        self._folder = fresh(plan.folder / "clock")
        self._stack = stack
        self._companies: list[Company] = []
        self._mutex = threading.Lock()
        self._is_interrupted = threading.Event()
        self.worlds: set[str] = set()
        self.notes: set[str] = set()
        self.played = 0
        self.skipped = 0

    def play(self, cases: Sequence[Case]) -> Iterator[Finding]:
        """What the cases find."""
        for name in sorted({one for case in cases for one in (case.holder, case.rival)}):
            if name in STEADY:
                self._begin(name)
        self._always = set(_first_of_each_script(cases).values())
        for found in played_at_once(cases, self._found, self._abandon):
            yield from found

    def _abandon(self) -> None:
        """Nothing that is seen from now on is evidence."""
        with self._mutex:
            self._is_interrupted.set()
            for company in self._companies:
                company.abandon()

    def _begin(self, name: str) -> None:
        try:
            self._steady[name] = self._made(name, STEADY[name](), self._folder, self._stack)
        except Missing as error:
            self.notes.add(str(error))

    def _made(self, name: str, world: World, folder: Path, stack: ExitStack) -> Company:
        company = stack.enter_context(world.company(folder, self._prelude))
        with self._mutex:
            self.worlds.add(name)
            self._companies.append(company)
            if self._is_interrupted.is_set():
                company.abandon()
        return company

    def _found(self, number: int, case: Case) -> list[Finding]:
        if self._is_interrupted.is_set() or (self._plan.time_is_up() and case not in self._always):
            return []
        self._plan.progress(str(case))
        folder = fresh(self._folder / f"case-{number}")
        with ExitStack() as stack:
            try:
                words = self._played(case, folder, stack)
            except Missing as error:
                with self._mutex:
                    self.notes.add(str(error))
                    self.skipped += 1
                return []
        if self._is_interrupted.is_set():
            return []
        with self._mutex:
            self.played += 1
        findings = self._plan.found(str(case), [folder], words)
        shutil.rmtree(folder, ignore_errors=True)
        return findings

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
        return [
            str(one)
            for one in violations(read_history(folder), foreign_stored(scene.path), is_steady=False)
        ]

    def _company(self, name: str, world: World, folder: Path, stack: ExitStack) -> Company:
        if name not in STEADY:
            return self._made(name, world, folder, stack)
        if name not in self._steady:
            raise Missing(f"{name}: see above")
        return self._steady[name]
