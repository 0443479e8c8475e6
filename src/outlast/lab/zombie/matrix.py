"""Every write of a stopped holder, after everything that can have happened to its task."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from outlast.lab.actors import Actor, ActorRaised, Company, NoAnswer
from outlast.lab.experiment import Finding, Plan
from outlast.lab.history import read_history
from outlast.lab.invariants import violations
from outlast.lab.stored import foreign_stored
from outlast.lab.zombie.cases import (
    BEFORE_ASKING,
    BEFORE_WRITING,
    STOPS_AT,
    VERBS,
    WHILE_WRITING,
    WITH_A_LIVE_ONE,
    Case,
    all_cases,
    rounds,
)
from outlast.lab.zombie.meanwhile import (
    ENQUEUED_ANEW,
    LEASE,
    LONG_LEASE,
    MEANWHILE,
    NEEDS_THE_ZOMBIE,
    PAST_THE_LEASE_SECONDS,
    NotHandedOut,
    Stage,
)

CASES = tuple(all_cases(tuple(MEANWHILE), NEEDS_THE_ZOMBIE))

_REFUSED = "LeaseLost: "


class Refuted(Exception):
    """A promise was seen broken; the words of it."""


def play(
    cases: Sequence[Case], plan: Plan, company: Company, played: Counter[str]
) -> Iterator[Finding]:
    """Play cases, those of one state of affairs on one stage; yields what they find."""
    for state, group in groupby(cases, key=lambda case: case.meanwhile):
        if plan.time_is_up():
            return
        plan.progress(f"zombies: {state}")
        stage = Stage(plan.folder / "zombie", company)
        tasks: dict[str, Case] = {}
        try:
            for case in group:
                task_id = f"t{len(tasks)}"
                tasks[task_id] = case
                played["writes"] += 1
                try:
                    _play(stage, case, task_id)
                except (Refuted, NotHandedOut, NoAnswer, ActorRaised, RuntimeError) as error:
                    yield _finding(str(error), str(case), stage, plan)
                    stage.close()
                    break
                if plan.time_is_up():
                    break
        finally:
            stage.close()
        yield from _judged(stage, tasks, plan)
        shutil.rmtree(stage.folder)


def _judged(stage: Stage, tasks: dict[str, Case], plan: Plan) -> Iterator[Finding]:
    """The invariants; a row that came after another under the same id began its life anew."""
    history, stored = read_history(stage.folder), foreign_stored(stage.path)
    for one in violations(history, stored):
        case = tasks.get(one.task_id)
        if case is not None and case.meanwhile in ENQUEUED_ANEW and one.kind in ("lost", "twice"):
            continue
        yield _finding(str(one), str(case or "all of them"), stage, plan)


def _finding(what: str, case: str, stage: Stage, plan: Plan) -> Finding:
    return Finding(what, case, plan.keep_evidence(case, [stage.folder], what=what))


def _play(stage: Stage, case: Case, task_id: str) -> None:
    stage.does("enqueue", task_id, queue=task_id)
    zombie, verb = stage.zombie, VERBS[case.verb]
    ((number, _, token, _),) = zombie.ask("hands", case.hold, {"queue": task_id, "lease": LEASE})
    if case.moment == BEFORE_WRITING:
        zombie.ask("stops", STOPS_AT[case.moment])
        _tell(zombie, case, number, task_id)
        zombie.await_stop()
    else:
        zombie.stop()
    if early := stage.heir.ask("hands", "claim", {"queue": task_id}):
        raise Refuted(f"a holder was stopped, its lease stood, and it was handed out: {early}")
    stage.clock.advance(PAST_THE_LEASE_SECONDS)
    holder = MEANWHILE[case.meanwhile](stage, task_id)
    own_id = _give_a_live_one(stage, case, task_id)
    stage.reader.ask("changes", str(stage.path))
    zombie.resume()
    if case.moment != BEFORE_WRITING:
        if case.moment == WHILE_WRITING:
            zombie.ask("stops", STOPS_AT[case.moment])
        _tell(zombie, case, number, task_id)
    if case.moment == WHILE_WRITING:
        zombie.await_stop()
        _is_named(stage, task_id)
        zombie.resume()
    outcome, value = zombie.answer()
    _check_answer(case, outcome, value)
    _check_changes(stage, own_id, f"{verb.name} by token {token} was answered {outcome} {value}")
    if holder is not None:
        actor, lease = holder
        said = actor.ask("writes", "complete", lease, "the present holder's result")
        if said != ["done", True]:
            raise Refuted(f"afterwards the present holder could not complete it: {said}")


def _give_a_live_one(stage: Stage, case: Case, task_id: str) -> str | None:
    """A task that the zombie claims once it is awake, to be completed together with the lost."""
    if case.verb != WITH_A_LIVE_ONE or case.moment == BEFORE_WRITING:
        return None
    own_id = f"{task_id}-own"
    stage.does("enqueue", own_id, queue=own_id)
    stage.zombie.resume()
    stage.zombie.ask("hands", "claim", {"queue": own_id, "lease": LONG_LEASE})
    if case.moment == BEFORE_ASKING:
        stage.zombie.stop()
    return own_id


def _tell(zombie: Actor, case: Case, number: int, task_id: str) -> None:
    verb = VERBS[case.verb]
    if verb.name == "heartbeat":
        zombie.tell("does", "heartbeat", [task_id])
    elif case.verb == WITH_A_LIVE_ONE and case.moment != BEFORE_WRITING:
        zombie.tell("writes_with_the_newest", number, *verb.arguments)
    else:
        zombie.tell("writes", verb.name, number, *verb.arguments, **dict(verb.options))


def _is_named(stage: Stage, task_id: str) -> None:
    """Whoever writes meanwhile is told who stands in the way; whoever reads is not hindered."""
    outcome, value = stage.heir.ask("does", "enqueue", f"{task_id}-meanwhile")
    if outcome != "refused" or not str(value).startswith("QueueStalled: "):
        raise Refuted(f"a write beside a stopped writer was answered {outcome} {value}")
    if f"process {stage.zombie.pid} (stopped)" not in value:
        raise Refuted(f"the stopped writer {stage.zombie.pid} was not named: {value}")


def _check_answer(case: Case, outcome: str, value: object) -> None:
    verb = VERBS[case.verb]
    if verb.name == "complete_many":
        # The witness tells of each lease whether its end was stored.
        is_refused = outcome == "done" and isinstance(value, list) and value[0] is False
        if len(value if isinstance(value, list) else ()) > 1 and value != [False, True]:
            raise Refuted(f"a live lease beside a lost one was answered {outcome} {value}")
    else:
        is_refused = outcome == "refused" and str(value).startswith(_REFUSED)
    is_fine = outcome == "done" and not verb.is_refused
    if not (is_refused or is_fine):
        raise Refuted(f"a write of a zombie was answered {outcome} {value}")


def _check_changes(stage: Stage, own_id: str | None, what: str) -> None:
    """Not one row is another's than the zombie's own: its worker's, and that of a live lease."""
    pid = repr(stage.zombie.pid)
    for table, row in stage.reader.ask("changes", str(stage.path)):
        if table == "workers" and pid in row:
            continue
        if table == "sqlite_sequence" and (row[0] == "'workers'" or own_id):
            continue
        if own_id and (table == "transitions" or (table == "tasks" and repr(own_id) in row)):
            continue
        raise Refuted(f"{what}, and {table} changed: {row}")


def chosen_cases(plan: Plan) -> list[Case]:
    """What a plan asks for, by its seed."""
    if plan.case is not None:
        return [case for case in CASES if str(case) == plan.case]
    return rounds(CASES, plan.seed)
