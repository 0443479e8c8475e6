"""`lab kill`: SIGKILL at every named point and at random moments, and too little memory.

A case is one of four sorts, and its text says which: `probe settle/settle.updated#3` kills a fixed
life at the third passing of a probe; `random producer 17` kills a process at a moment drawn from
the seed; `random command task cancel 2` does so to a command; `memory engine claim/120 KiB` lets
allocations fail.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan, quiet
from outlast_lab.experiments.kill import commands, memory, moments, sweep, victims, workers
from outlast_lab.experiments.kill.cases import Case, Cases, Judgement, Room, left_by_the_dead
from outlast_lab.experiments.kill.stage import Stage

NATURAL_SECONDS = 30.0

# How many cases of each sort come in a round.
_SWEPT, _AT_RANDOM, _STARVED = 12, 6, 2
# What is played whatever the time: of each sort one, that is of victims, of a worker's processes
# and of the ways to have too little memory. And so many more of a sort until one was met.
_LEAST = (1, len(victims.VICTIMS), len(workers.TARGETS), 1, 3)
_MORE_TRIES = 20

NOT_MET = "the case was not met: nobody was killed by it, or the memory did suffice"
_PROBES_FIGURE, _RANDOM_FIGURE = "killed at probes", "killed at random moments"
_WORKERS_FIGURE, _COMMANDS_FIGURE = "killed while they worked", "commands killed"
_STARVED_FIGURE, _HOGS_FIGURE = "starved of memory", "killed for their memory"
_FIGURES = (_PROBES_FIGURE, _RANDOM_FIGURE, _WORKERS_FIGURE, _COMMANDS_FIGURE, _STARVED_FIGURE)


def run(plan: Plan) -> Findings:
    """Kill until the time or the number of cases is up, and report what was broken by it."""
    violations: list[Finding] = []
    figures: Counter[str] = Counter()
    met = 0
    if plan.case is not None:
        case_named(plan.case)
    with quiet(), Stage() as stage:
        room = Room(stage, plan.folder / "cases", plan.seed)
        for text, case in _chosen(room, plan, figures):
            plan.progress(f"{met} cases, {figures['kills']} kills: {text}")
            is_met, found = _tried(room, plan, text, case, figures)
            violations += found
            met += is_met
            if met == plan.cases:
                break
    seconds, notes = plan.elapsed_seconds(), _notes(figures)
    return Findings("kill", met, violations, seconds, plan.seed, dict(figures), notes)


def _chosen(room: Room, plan: Plan, figures: Counter[str]) -> Cases:
    if plan.case is not None:
        yield plan.case, case_named(plan.case)
        return
    natural_seconds = None if plan.cases else NATURAL_SECONDS
    sorts = (
        sweep.cases(room),
        moments.IN_TURN.cases(moments.try_case),
        workers.IN_TURN.cases(workers.try_case),
        commands.IN_TURN.cases(commands.try_case),
        memory.cases(room),
    )
    yield from _least(sorts, figures)
    for one in _mixed(sorts):
        if plan.time_is_up(natural_seconds):
            return
        yield one


def case_named(text: str) -> Case:
    """What tries the case of a text; InvalidInput if there is no such case."""
    for sort, case in (
        (sweep.named, sweep.try_case),
        (commands.IN_TURN.names, commands.try_case),
        (workers.IN_TURN.names, workers.try_case),
        (moments.IN_TURN.names, moments.try_case),
        (memory.named, memory.try_named),
    ):
        if sort(text):
            return case
    raise InvalidInput(
        f"there is no case {text!r}; one reads like 'probe settle/settle.updated#3',"
        " 'random producer 17', 'random command task cancel 2' or 'memory engine claim/700 KiB'"
    )


def _least(sorts: Sequence[Cases], figures: Counter[str]) -> Cases:
    """What is played even in no time: of each sort as many as it takes to meet one."""
    for cases, number, figure in zip(sorts, _LEAST, _FIGURES, strict=True):
        yield from islice(cases, number)
        for one in islice(cases, _MORE_TRIES):
            if figures[figure]:
                break
            yield one


def _mixed(sorts: Sequence[Cases]) -> Cases:
    """Some cases of each sort in turn, so that a short run has seen something of everything."""
    while True:
        for cases, number in zip(sorts, (_SWEPT, _AT_RANDOM, 1, 1, _STARVED), strict=True):
            yield from islice(cases, number)


def _tried(
    room: Room, plan: Plan, text: str, case: Case, figures: Counter[str]
) -> tuple[bool, list[Finding]]:
    """Try one case; whether it was met, and what it broke, with the files as the dead left them."""
    with room.fresh(text) as database:
        judgement = _judged(room, database, text, case)
        figures["kills"] += judgement.kills
        figures["acknowledged before"] += judgement.acknowledged
        figures["refused for want of memory"] += judgement.refused
        figures[_sort(text) if judgement.is_met else "not met"] += 1
        troubles = judgement.troubles[:_MOST_TROUBLES]
        evidence = None
        if troubles:
            folder, found = database.parent, left_by_the_dead(database)
            evidence = plan.keep_evidence(
                text,
                [found if found.exists() else folder],
                troubles="\n".join(judgement.troubles),
            )
        elif plan.case is not None and not judgement.is_met:
            troubles = [NOT_MET]
    return judgement.is_met, [Finding(trouble, text, evidence) for trouble in troubles]


def _judged(room: Room, database: Path, text: str, case: Case) -> Judgement:
    """A case that cannot be brought to its end has found something, too."""
    try:
        return case(room, database, text)
    except Exception as error:
        return Judgement(0, [f"{type(error).__name__}: {error}"])


_MOST_TROUBLES = 5


def _sort(text: str) -> str:
    for named, figure in (
        (sweep.named, _PROBES_FIGURE),
        (commands.IN_TURN.names, _COMMANDS_FIGURE),
        (workers.IN_TURN.names, _WORKERS_FIGURE),
        (moments.IN_TURN.names, _RANDOM_FIGURE),
    ):
        if named(text):
            return figure
    return _HOGS_FIGURE if text.split()[1] == memory.KILLED else _STARVED_FIGURE


def _notes(figures: Counter[str]) -> list[str]:
    """What was played in place of something else; nothing of what was not played."""
    ways = [
        *(["limits on the engine or on the process"] if figures[_STARVED_FIGURE] else []),
        *(["SIGKILL to a process that grew"] if figures[_HOGS_FIGURE] else []),
    ]
    if not ways:
        return []
    return [
        f"Out of memory was played by {' and by '.join(ways)}; no memory cgroup was made, for that"
        " needs one to be delegated."
    ]
