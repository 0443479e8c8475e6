"""Misuse: what programs and people do to a store that nobody should, in the user's own environment.

Each case says what must happen: a refusal in one sentence by the right class of error, or nothing
at all. It plays in a process of its own, and the store that is left is judged like any other.
"""

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.misuse.cases import CASES
from outlast_lab.misuse.stage import Stage

AT_ONCE = 2


def run(plan: Plan) -> Findings:
    """All cases, or as many as there is time for; in an order that the seed decides."""
    names = _chosen(plan)
    theatre = Theatre(plan, len(names), min(AT_ONCE, len(names)))
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for _ in pool.map(theatre.play, names):
            pass
    except BaseException:
        theatre.break_off()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        theatre.close()
    return Findings(
        "misuse",
        theatre.played,
        theatre.found,
        plan.elapsed_seconds(),
        plan.seed,
        {
            "cases played": f"{theatre.played} of {len(names)}",
            "cases that cannot be tried here": len(theatre.notes),
        },
        sorted(theatre.notes),
    )


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


class Theatre:
    """Stages, one for each case that plays at a time, and what was seen on them.

    They are made by the thread that makes the theatre, for the kernel ends them with it.
    """

    def __init__(self, plan: Plan, total: int, at_once: int = 1) -> None:
        self.played = 0
        self.found: list[Finding] = []
        self.notes: list[str] = []
        self._plan = plan
        self._total = total
        self._kinds_played: set[str] = set()
        self._broken_off = Event()
        self._stages: list[Stage] = []
        self._free: SimpleQueue[Stage] = SimpleQueue()
        try:
            for _ in range(at_once):
                self._stages.append(Stage())
                self._free.put(self._stages[-1])
        except BaseException:
            self.close()
            raise

    def play(self, name: str) -> None:
        """One case, unless the time is up and one of its kind has been played."""
        plan, kind = self._plan, name.partition(": ")[0]
        if self._broken_off.is_set() or (plan.time_is_up() and kind in self._kinds_played):
            return
        folder = plan.folder / f"case {list(CASES).index(name)}"
        folder.mkdir()
        stage = self._free.get()
        try:
            verdict = stage.play(name, folder)
        finally:
            self._free.put(stage)
        if self._broken_off.is_set():
            return
        if verdict["note"]:
            self.notes.append(f"{name}: {verdict['note']}")
        else:
            self.played += 1
            self._kinds_played.add(kind)
        for what in verdict["broken"]:
            self.found.append(self._finding(name, what, folder))
        shutil.rmtree(folder, ignore_errors=True)
        plan.progress(f"{self.played} of {self._total} cases, {len(self.found)} violations")

    def _finding(self, name: str, what: str, folder: Path) -> Finding:
        evidence = self._plan.keep_evidence(name, folder.iterdir(), broken=what)
        return Finding(f"{what}; what must happen: it {CASES[name].must}", name, evidence)

    def break_off(self) -> None:
        """No case goes on, and what becomes of those under way says nothing."""
        self._broken_off.set()
        for stage in self._stages:
            stage.break_off()

    def close(self) -> None:
        """The last curtain."""
        for stage in self._stages:
            stage.close()
