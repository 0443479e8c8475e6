"""Every write of a stopped holder, after everything that can have happened to its task."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from outlast_lab.experiment import Broken, Finding, Plan
from outlast_lab.experiments.zombie.cases import (
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
from outlast_lab.experiments.zombie.meanwhile import (
    ENQUEUED_ANEW,
    LEASE,
    LONG_LEASE,
    MEANWHILE,
    NEEDS_THE_ZOMBIE,
    PAST_THE_LEASE_SECONDS,
    STILL_ITS_OWN,
    Holder,
    Stage,
)
from outlast_lab.judge.foreign_reader import foreign_stored
from outlast_lab.judge.invariants import violations
from outlast_lab.record.history import read_history
from outlast_lab.stage.actors import Actor, ActorRaised, Company, NoAnswer, fresh

CASES = tuple(all_cases(tuple(MEANWHILE), NEEDS_THE_ZOMBIE))

# So many share a stage: it costs more than one of them, and grows slower with every task on it.
STAGE_CASES = 12
_REFUSED = "LeaseLost: "
_WRONG = (Broken, NoAnswer, ActorRaised, RuntimeError)


def play(
    cases: Iterable[Case], plan: Plan, company: Company, played: Counter[str]
) -> Iterator[Finding]:
    """Play cases, some on one stage, and at least one of them; yields what they find.

    Of an iterator it takes only what it plays.
    """
    left = iter(cases)
    while not (plan.time_is_up() and played["writes"]):
        first = next(left, None)
        if first is None:
            return
        yield from _on_one_stage(chain([first], left), plan, company, played)


def _on_one_stage(
    cases: Iterator[Case], plan: Plan, company: Company, played: Counter[str]
) -> Iterator[Finding]:
    """Play on one stage until it is full, something is found, or the time is up."""
    folder = fresh(plan.folder / "zombie")
    tasks: dict[str, Case] = {}
    stage: Stage | None = None
    try:
        for case in islice(cases, STAGE_CASES):
            task_id = f"t{len(tasks)}"
            tasks[task_id] = case
            played["writes"] += 1
            plan.progress(f"zombies: {case.meanwhile}")
            try:
                stage = stage or Stage(folder, company)
                _play(stage, case, task_id)
            except _WRONG as error:
                yield from plan.found(str(case), [folder], [error])
                break
            if plan.time_is_up():
                break
        if stage is not None:
            stage.close()
            yield from _judged(stage, tasks, plan)
    finally:
        if stage is not None:
            stage.close()
        shutil.rmtree(folder, ignore_errors=True)


def _judged(stage: Stage, tasks: dict[str, Case], plan: Plan) -> Iterator[Finding]:
    """The invariants; a row that came after another under the same id began its life anew."""
    history, stored = read_history(stage.folder), foreign_stored(stage.path)
    for one in violations(history, stored):
        # What is about no task is put down to the case that was played last.
        case = tasks.get(_case_task_id(one.task_id)) or next(reversed(tasks.values()))
        if case.meanwhile in ENQUEUED_ANEW and one.kind in ("lost", "twice"):
            continue
        yield from plan.found(str(case), [stage.folder], [one])


def _case_task_id(task_id: str) -> str:
    """The task of the case that made a task, be it its live one or what the heir enqueued."""
    return task_id.partition("-")[0]


def _play(stage: Stage, case: Case, task_id: str) -> None:
    stage.does("enqueue", task_id, queue=task_id)
    zombie = stage.zombie
    hand = {"queue": task_id, "lease": LEASE}
    ((number, _, token, _),) = zombie.ask("hands", case.hold, hand)
    own_id = None
    if case.moment == BEFORE_WRITING or case.meanwhile in STILL_ITS_OWN:
        # Later it could not claim: it stands still, or would put its own task back by claiming.
        own_id = _give_a_live_one(stage, case, task_id)
    _stop(zombie, case, number, task_id)
    if early := stage.heir.ask("hands", "claim", {"queue": task_id}):
        raise Broken(f"a holder was stopped, its lease stood, and it was handed out: {early}")
    stage.clock.advance(PAST_THE_LEASE_SECONDS)
    holder = MEANWHILE[case.meanwhile](stage, task_id)
    own_id = own_id or _give_a_live_one(stage, case, task_id)
    stage.reader.ask("changes", str(stage.path))
    outcome, value = _come_back(stage, case, number, task_id)
    if case.meanwhile in STILL_ITS_OWN:
        _check_acceptance(case, outcome, value)
        holder = None if VERBS[case.verb].is_end else (zombie, number)
    else:
        _check_answer(case, outcome, value)
        said = f"{case.verb} by token {token} was answered {outcome} {value}"
        _check_changes(stage, own_id, said)
    _complete(holder)


def _stop(zombie: Actor, case: Case, number: int, task_id: str) -> None:
    if case.moment == BEFORE_WRITING:
        zombie.ask("stops", STOPS_AT[case.moment])
        _tell(zombie, case, number, task_id)
        zombie.await_stop()
    else:
        zombie.stop()


def _come_back(stage: Stage, case: Case, number: int, task_id: str) -> tuple[str, object]:
    """What the zombie's write is answered."""
    zombie = stage.zombie
    zombie.resume()
    if case.moment == WHILE_WRITING:
        zombie.ask("stops", STOPS_AT[case.moment])
    if case.moment != BEFORE_WRITING:
        _tell(zombie, case, number, task_id)
    if case.moment == WHILE_WRITING:
        zombie.await_stop()
        _is_named(stage, task_id)
        zombie.resume()
    outcome, value = zombie.answer()
    return outcome, value


def _complete(holder: Holder) -> None:
    if holder is None:
        return
    actor, lease = holder
    said = actor.ask("writes", "complete", lease, "the present holder's result")
    if said != ["done", True]:
        raise Broken(f"afterwards the present holder could not complete it: {said}")


def _give_a_live_one(stage: Stage, case: Case, task_id: str) -> str | None:
    """A task that the zombie claims once it is awake, to be completed together with the lost."""
    if case.verb != WITH_A_LIVE_ONE:
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
    elif case.verb == WITH_A_LIVE_ONE:
        zombie.tell("writes_with_the_newest", number, *verb.arguments)
    else:
        zombie.tell("writes", verb.name, number, *verb.arguments, **dict(verb.options))


def _is_named(stage: Stage, task_id: str) -> None:
    """Whoever gives up waiting is told who stands in the way; whoever reads is not hindered."""
    outcome, value = stage.impatient.ask("does", "enqueue", f"{task_id}-meanwhile")
    if outcome != "refused" or not str(value).startswith("QueueStalled: "):
        raise Broken(f"a write beside a stopped writer was answered {outcome} {value}")
    if f"process {stage.zombie.pid} (stopped)" not in value:
        raise Broken(f"the stopped writer {stage.zombie.pid} was not named: {value}")


def _check_answer(case: Case, outcome: str, value: object) -> None:
    verb = VERBS[case.verb]
    if verb.name == "complete_many":
        # The witness tells of each lease whether its end was stored.
        is_refused = outcome == "done" and isinstance(value, list) and value[0] is False
        if len(value if isinstance(value, list) else ()) > 1 and value != [False, True]:
            raise Broken(f"a live lease beside a lost one was answered {outcome} {value}")
    else:
        is_refused = outcome == "refused" and str(value).startswith(_REFUSED)
    is_fine = outcome == "done" and not verb.is_refused
    if not (is_refused or is_fine):
        raise Broken(f"a write of a zombie was answered {outcome} {value}")


def _check_acceptance(case: Case, outcome: str, value: object) -> None:
    """A lease that ran out and was given to nobody else still counts."""
    is_stored = value is not False and not (isinstance(value, list) and False in value)
    if outcome != "done" or not is_stored:
        raise Broken(f"a lease that nobody took was answered {outcome} {value} to {case.verb}")


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
        raise Broken(f"{what}, and {table} changed: {row}")


def chosen_cases(plan: Plan) -> list[Case]:
    """What a plan asks for, by its seed."""
    if plan.case is not None:
        return [case for case in CASES if str(case) == plan.case]
    return rounds(CASES, plan.seed)
