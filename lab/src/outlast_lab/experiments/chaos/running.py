"""Chaos: many processes put in, work and operate on one store while others of them are killed,
stopped, continued and restarted at random; what each was told is held against what is there.

A case is a round: 4 to 16 processes for some seconds. Seed, number and length fix every process's
program and what is done to whom and when; what the kernel makes of it differs from run to run. Or
it is a number of crash cycles, in which all processes of a small crowd start and crash together.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from outlast.errors import InvalidInput
from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.experiments.chaos.cycles import Cycles
from outlast_lab.experiments.chaos.judge import figures, objections, read_executions
from outlast_lab.experiments.chaos.members import NO_ENVIRONMENT, PATIENCE_SECONDS, Member
from outlast_lab.experiments.chaos.programs import Program, Round, round_of
from outlast_lab.experiments.chaos.supervisor import Account, Supervisor
from outlast_lab.experiments.clock.wall_clock import WallClock
from outlast_lab.judge.foreign_reader import copied_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.judge.row_rules import Violation
from outlast_lab.record.history import read_history
from outlast_lab.stage.actors import Company

ROUND_SECONDS = 8.0
NATURAL_SECONDS = 30.0
SHORTEST_SECONDS = 1.0

AS_LEFT = "as the crowd left it"

# As many as the requirement asks for; they take some ten to twenty seconds, so that one who gave
# less time has fewer.
CRASHES, FEW_CRASHES = 50, 15
CRASHES_SECONDS = 20.0

_CASE = re.compile(r"round (\d{1,9}) of (\d{1,6}(?:\.\d{1,6})?) s")
_CYCLES = re.compile(r"cycles (\d{1,9}), (\d{1,4}) crashes")


def run(plan: Plan) -> Findings:
    """Rounds, until the time is up."""
    counted: Counter[str] = Counter()
    found: list[Finding] = []
    done = 0
    for case in _cases(plan):
        plan.progress(f"{case}: {counted['calls']} calls, {counted['kills']} kills so far")
        if cycles := _CYCLES.fullmatch(case):
            found += _play_cycles(plan, int(cycles[1]), int(cycles[2]), case, counted)
        elif match := _CASE.fullmatch(case):
            chaos = round_of(plan.seed, int(match[1]), float(match[2]))
            found += _play(plan, chaos, case, counted)
        done += 1
    return Findings(
        "chaos",
        done,
        found,
        plan.elapsed_seconds(),
        plan.seed,
        figures=dict(_in_order(counted)),
    )


def _in_order(counted: Counter[str]) -> list[tuple[str, int]]:
    """What was done to the crowd first, then what became of it, then its calls by verb."""
    return sorted(counted.items(), key=lambda item: (": " in item[0], item[0]))


def _cases(plan: Plan) -> Iterator[str]:
    """Rounds and crash cycles in turn; where the number of cases is given, rounds alone."""
    if plan.case is not None:
        if not (_CASE.fullmatch(plan.case) or _CYCLES.fullmatch(plan.case)):
            raise InvalidInput(
                "a case of chaos reads 'round 1 of 8 s' or 'cycles 1, 50 crashes', not"
                f" {plan.case!r}"
            )
        yield plan.case
        return
    for number, seconds in rounds(plan):
        yield f"round {number} of {seconds:g} s"
        if plan.cases is None and not plan.time_is_up(NATURAL_SECONDS):
            yield f"cycles {number}, {_crashes_in(_seconds_left(plan))} crashes"


def _seconds_left(plan: Plan) -> float:
    limit = NATURAL_SECONDS if plan.seconds is None else plan.seconds
    return limit - plan.elapsed_seconds()


def _crashes_in(seconds: float) -> int:
    return CRASHES if seconds >= CRASHES_SECONDS else FEW_CRASHES


def rounds(plan: Plan) -> Iterator[tuple[int, float]]:
    """Number and length of the rounds there is time for."""
    if plan.cases is not None:
        yield from ((number, ROUND_SECONDS) for number in range(1, plan.cases + 1))
        return
    number = 1
    while (left := _seconds_left(plan)) >= SHORTEST_SECONDS or number == 1:
        yield number, round(max(SHORTEST_SECONDS, min(ROUND_SECONDS, left)), 1)
        number += 1


def _play_cycles(
    plan: Plan, number: int, count: int, case: str, counted: Counter[str]
) -> list[Finding]:
    folder = plan.folder / f"cycles {number}"
    folder.mkdir(parents=True)
    try:
        with Company() as company:
            cycles = Cycles(folder, f"{plan.seed} {number}", company)
            broken = list(cycles.play(count))
        broken += cycles.judged(counted)
        counted["crash cycles"] += count
        return plan.found(case, folder.iterdir(), broken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _play(plan: Plan, chaos: Round, case: str, counted: Counter[str]) -> list[Finding]:
    """One round in a folder of its own, judged; the evidence is kept when something is broken."""
    folder = plan.folder / f"round {chaos.number}"
    records = folder / "records"
    records.mkdir(parents=True)
    path, seed = folder / "work.db", f"{plan.seed} {chaos.number}"
    try:
        clock = WallClock(folder) if chaos.has_own_clock else None
        account = Supervisor(chaos, path, records, seed, clock).run()
        _copy(path, folder / AS_LEFT)
        _finish(path, records, seed, account, clock)
        broken = _judge(path, records, account, counted, is_steady=clock is None)
        return plan.found(case, folder.iterdir(), broken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: Path, target: Path) -> None:
    """The store before anybody finishes what is left in it, for whoever looks for a cause."""
    target.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():
            shutil.copy2(file, target / file.name)


def _finish(
    path: Path, records: Path, seed: str, account: Account, clock: WallClock | None
) -> None:
    """Somebody comes when all others are gone, and finishes what is left."""
    environment = NO_ENVIRONMENT if clock is None else clock.environment
    program = Program("last", "last", 0, PATIENCE_SECONDS)
    last = Member(program, path, records, seed, environment)
    try:
        last.wait(2 * PATIENCE_SECONDS)
    finally:
        trouble = last.clear_away()
    if trouble:
        account.troubles.append(trouble)


def _judge(
    path: Path, records: Path, account: Account, counted: Counter[str], is_steady: bool
) -> list[Violation]:
    history, stored = read_history(records), copied_stored(path)
    executions = read_executions(records)
    counted.update(figures(history, stored, executions, account))
    return [
        *violations(history, stored, is_steady=is_steady),
        *objections(history, stored, executions, account),
    ]
