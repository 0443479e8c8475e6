"""Misuse: what programs and people do to a store that nobody should, in the user's own environment.

Each case says what must happen: a refusal in one sentence by the right class of error, or nothing
at all. It plays in a process of its own, and the store that is left is judged like any other.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.experiments.misuse.cases import CASES
from outlast_lab.stage.fork_server import ForkServer
from outlast_lab.stage.pool import Order, Pool

AT_ONCE = 2
GOODBYE_SECONDS = 10


def run(plan: Plan) -> Findings:
    """All cases, or as many as there is time for; in an order that the seed decides."""
    return play(plan, _chosen(plan), AT_ONCE)


def _chosen(plan: Plan) -> list[str]:
    if plan.case is not None:
        if plan.case not in CASES:
            raise InvalidInput(
                f"there is no case {plan.case!r} of misuse; one reads {next(iter(CASES))!r}, and"
                " without --case all are played"
            )
        return [plan.case]
    names = list(CASES)
    random.Random(plan.seed).shuffle(names)
    return names[: plan.cases]


def play(plan: Plan, names: Sequence[str], at_once: int) -> Findings:
    """These cases; once the time is up, those of a kind of which none was played yet."""
    playing = _Playing(plan, names)
    with Pool(_stages(min(at_once, len(names))), GOODBYE_SECONDS) as pool:
        for order, verdict in pool.do(playing.orders()):
            playing.note(order.arguments["name"], Path(order.arguments["folder"]), verdict)
    return Findings(
        "misuse",
        playing.played,
        playing.found,
        plan.elapsed_seconds(),
        plan.seed,
        {
            "cases played": f"{playing.played} of {len(names)}",
            "cases that cannot be tried here": len(playing.notes),
        },
        sorted(playing.notes),
    )


def _stages(count: int) -> Iterator[ForkServer]:
    for _ in range(count):
        yield ForkServer("outlast_lab.experiments.misuse.serving:main", os.getpid())


class _Playing:
    """Which cases were played, and what was seen."""

    def __init__(self, plan: Plan, names: Sequence[str]) -> None:
        self.played = 0
        self.found: list[Finding] = []
        self.notes: list[str] = []
        self._plan = plan
        self._names = names
        self._kinds: set[str] = set()

    def orders(self) -> Iterator[Order]:
        for name in self._names:
            if self._plan.time_is_up() and _kind(name) in self._kinds:
                continue
            self._kinds.add(_kind(name))
            folder = self._plan.folder / f"case {list(CASES).index(name)}"
            folder.mkdir()
            yield Order("play", {"name": name, "folder": str(folder)})

    def note(self, name: str, folder: Path, verdict: dict[str, Any]) -> None:
        if verdict["note"]:
            self.notes.append(f"{name}: {verdict['note']}")
            self._kinds.discard(_kind(name))
        else:
            self.played += 1
        must = f"what must happen: it {CASES[name].must}"
        broken = [f"{what}; {must}" for what in verdict["broken"]]
        self.found += self._plan.found(name, folder.iterdir(), broken)
        shutil.rmtree(folder, ignore_errors=True)
        told = f"{self.played} of {len(self._names)} cases, {len(self.found)} violations"
        self._plan.progress(told)


def _kind(name: str) -> str:
    return name.partition(": ")[0]
