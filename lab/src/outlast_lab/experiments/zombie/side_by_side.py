"""Cases of zombies that are played side by side, each in a folder of its own: they mostly wait."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from outlast_lab.experiment import Finding, Plan
from outlast_lab.stage.actors import Company, fresh, played_at_once

One = TypeVar("One")


class SideBySide:
    """Plays cases of a kind, at least one of them whatever the time, and counts them."""

    def __init__(self, kind: str, plan: Plan, company: Company, played: Counter[str]) -> None:
        self._kind = kind
        self._plan = plan
        self._company = company
        self._played = played

    def play(
        self, cases: Sequence[One], objections: Callable[[One, Path, Company], list[str]]
    ) -> Iterator[Finding]:
        """What the cases find."""

        def found(number: int, case: One) -> list[Finding]:
            if number and self._plan.time_is_up():
                return []
            self._played[self._kind] += 1
            folder = fresh(self._plan.folder / f"{self._kind}-{number}")
            words = objections(case, folder, self._company)
            # Whoever was interrupted has seen the end of its processes.
            words = [] if self._company.is_abandoned else words
            findings = self._plan.found(str(case), [folder], words)
            shutil.rmtree(folder, ignore_errors=True)
            return findings

        for one in played_at_once(cases, found, self._company.abandon):
            yield from one
