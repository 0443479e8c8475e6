"""`lab kill`: SIGKILL at every named point and at random moments, and too little memory.

A case is one of four sorts, and its text says which: `probe settle/settle.updated#3` kills a fixed
life at the third passing of a probe; `random producer 17` kills a process at a moment drawn from
the seed; `random command task cancel 2` does so to a command; `memory engine claim/120 KiB` lets
allocations fail.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from outlast.lab.experiment import Finding, Findings, Plan
from outlast.lab.kill import commands, memory, moments, sweep, workers
from outlast.lab.kill.cases import Case, Cases, Judgement, Room
from outlast.lab.kill.stage import Stage

NATURAL_SECONDS = 30.0

# How many cases of each sort come in a round.
_SWEPT, _AT_RANDOM, _STARVED = 12, 6, 2


def run(plan: Plan) -> Findings:
    """Kill until the time or the number of cases is up, and report what was broken by it."""
    violations: list[Finding] = []
    figures: Counter[str] = Counter()
    tried = 0
    with _quiet(), Stage(plan.folder / "stage.log") as stage:
        room = Room(stage, plan.folder / "cases", plan.seed)
        for text, case in _chosen(room, plan):
            plan.progress(f"{tried} cases, {figures['kills']} kills: {text}")
            violations += _tried(room, plan, text, case, figures)
            tried += 1
    return Findings(
        "kill", tried, violations, plan.elapsed_seconds(), plan.seed, dict(figures), _notes()
    )


def _chosen(room: Room, plan: Plan) -> Cases:
    if plan.case is not None:
        yield plan.case, case_named(plan.case)
        return
    natural_seconds = None if plan.cases else NATURAL_SECONDS
    for text, case in islice(_mixed(room), plan.cases):
        if plan.time_is_up(natural_seconds):
            return
        yield text, case


def case_named(text: str) -> Case:
    """What tries the case of a text; ValueError if there is no such case."""
    for sort, case in (
        (sweep.named, sweep.try_case),
        (commands.named, commands.try_case),
        (workers.named, workers.try_case),
        (moments.named, moments.try_case),
        (memory.named, memory.try_named),
    ):
        if sort(text):
            return case
    raise ValueError(f"there is no case {text!r}; take the text from a finding of `lab kill`")


def _mixed(room: Room) -> Cases:
    """Some cases of each sort in turn, so that a short run has seen something of everything."""
    swept, starved = sweep.cases(room), memory.cases(room)
    random_moments, some_workers = moments.cases(), workers.cases()
    some_commands = commands.cases()
    while True:
        yield from islice(swept, _SWEPT)
        yield from islice(random_moments, _AT_RANDOM)
        yield from islice(some_workers, 1)
        yield from islice(some_commands, 1)
        yield from islice(starved, _STARVED)


def _tried(
    room: Room, plan: Plan, text: str, case: Case, figures: Counter[str]
) -> Iterator[Finding]:
    """Try one case; what it broke, with the files it broke them in."""
    fresh = room.fresh(text)
    with fresh as database:
        judgement = _judged(room, database, text, case)
        figures["kills"] += judgement.kills
        figures["acknowledged before"] += judgement.acknowledged
        figures["refused for want of memory"] += judgement.refused
        figures[_sort(text)] += 1
        if judgement.troubles:
            evidence = plan.keep_evidence(
                text, [database.parent], troubles="\n".join(judgement.troubles)
            )
            for trouble in judgement.troubles[:_MOST_TROUBLES]:
                yield Finding(trouble, text, evidence)


def _judged(room: Room, database: Path, text: str, case: Case) -> Judgement:
    """A case that cannot be brought to its end has found something, too."""
    try:
        return case(room, database, text)
    except Exception as error:
        return Judgement(0, [f"{type(error).__name__}: {error}"])


_MOST_TROUBLES = 5


def _sort(text: str) -> str:
    first, second = text.split()[:2]
    if first == "random":
        return "commands killed" if second == "command" else "killed at random moments"
    return {"probe": "killed at probes"}.get(first, "starved of memory")


def _notes() -> list[str]:
    return [
        "Out of memory was played by limits on the engine and on the process, and by SIGKILL to a"
        " process that grew; no memory cgroup was made, for that needs one to be delegated."
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Recoveries by the hundred are what is wanted here, and nothing to warn of."""
    log, nowhere = logging.getLogger("outlast"), logging.NullHandler()
    level = log.level
    log.addHandler(nowhere)
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(nowhere)
