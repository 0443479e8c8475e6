"""The judgement on a round of chaos: all records against the store, handlers against handlers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from outlast_lab.experiments.chaos.handlers import BEGUN
from outlast_lab.experiments.chaos.programs import LEASE_SECONDS
from outlast_lab.experiments.chaos.supervisor import Account, Span
from outlast_lab.judge.audit_rules import is_operators
from outlast_lab.judge.foreign_reader import Move, Stored
from outlast_lab.judge.recovery_rules import DIED, RECOVERY
from outlast_lab.judge.replay import FINAL
from outlast_lab.judge.row_rules import Violation
from outlast_lab.record.history import History, read_lines

# A lease that is renewed in time does not run out for less, whoever stands still.
LEAST_STOP_SECONDS = LEASE_SECONDS / 6


class Execution(NamedTuple):
    """A handler at work on a task; one that was killed has no end of its own."""

    worker: str
    task_id: str
    attempt: int
    token: int
    begun_at: float
    ended_at: float | None


def read_executions(folder: Path) -> list[Execution]:
    """What all handlers of all workers noted."""
    found: dict[tuple[str, int], Execution] = {}
    for path in sorted(folder.glob("*.hands")):
        for word, worker, task_id, attempt, token, at in read_lines(path):
            if word == BEGUN:
                found[task_id, token] = Execution(worker, task_id, attempt, token, at, None)
            else:
                found[task_id, token] = found[task_id, token]._replace(ended_at=at)
    return list(found.values())


def objections(
    history: History, stored: Stored, executions: list[Execution], account: Account
) -> Iterator[Violation]:
    """What the invariants do not look at: processes that end badly, ends that do not come, handlers
    that run at once."""
    for trouble in account.troubles:
        yield Violation("surprise", "", trouble)
    for task in stored.tasks.values():
        if task.status not in FINAL:
            yield Violation("stuck", task.id, f"is still {task.status}")
    yield from _overlaps(history, stored, executions, account)
    yield from _declared_dead(history, stored, executions)
    yield from _results(stored, executions)


def _overlaps(
    history: History, stored: Stored, executions: list[Execution], account: Account
) -> Iterator[Violation]:
    by_task: dict[str, list[Execution]] = defaultdict(list)
    for one in executions:
        by_task[one.task_id].append(one)
    ends = {
        (task_id, move.token): move
        for task_id, moves in stored.moves.items()
        for move in moves
        if move.from_status == "running"
    }
    for task_id, tried in by_task.items():
        for one, following in pairwise(sorted(tried, key=lambda tried: tried.token)):
            over_at = one.ended_at or history.killed_at.get(one.worker)
            if over_at is None or following.begun_at >= over_at:
                continue
            if not _is_explained(ends.get((task_id, one.token)), one, following, account):
                yield Violation("overlap", task_id, f"{following} began while {one} was at work")


def _is_explained(end: Move | None, one: Execution, following: Execution, account: Account) -> bool:
    """Only an operator, or a lease that ran out, frees a task whose handler is still at work: when
    its worker or its store process stood still or was gone, or somebody who kept all others from
    writing stood still, or the machine as a whole was late; and long enough."""
    if end is not None and is_operators(end.actor):
        return True
    if end is None or not end.reason.startswith("lease_expired"):
        return False
    stops = (
        span
        for span in account.stops
        if span.keeps_others_out or (span.name == one.worker and span.is_its_work)
    )
    absences = (span for span in account.without_store_process if span.name == one.worker)
    since, until = one.begun_at - LEASE_SECONDS, following.begun_at
    spans = (*stops, *absences, *account.late)
    return sum(_common_seconds(span, since, until) for span in spans) >= LEAST_STOP_SECONDS


def _common_seconds(span: Span, since: float, until: float) -> float:
    return max(0.0, min(span.until, until) - max(span.since, since))


def _declared_dead(
    history: History, stored: Stored, executions: list[Execution]
) -> Iterator[Violation]:
    """No task is taken for its dead worker's before that worker was killed, or left.

    The invariants look at leases that somebody was told of; the real worker keeps its own.
    """
    workers = {call.worker for call in history.of("work")}
    seen_at = _when_tokens_were_seen(history, executions)
    for task_id, moves in stored.moves.items():
        for move in moves:
            worker = move.worker
            if move.actor != RECOVERY or not move.reason.startswith("crash"):
                continue
            if worker is None or worker not in workers:
                continue
            over_at = history.killed_at.get(worker, history.left_at.get(worker))
            later = [at for token, at in seen_at[task_id] if token > move.token]
            if over_at is None or (later and min(later) < over_at):
                yield Violation("overlap", task_id, f"{worker} lives, declared dead: {move}")


def _when_tokens_were_seen(
    history: History, executions: list[Execution]
) -> dict[str, list[tuple[int, float]]]:
    """Moments at which each token of a task was surely out already."""
    seen: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for one in executions:
        seen[one.task_id].append((one.token, one.begun_at))
    for call in history.of("claim", "prefetch"):
        for task_id, token, *_ in call.value if call.is_done else ():
            seen[task_id].append((token, call.answered_at or 0.0))
    return seen


def _results(stored: Stored, executions: Iterable[Execution]) -> Iterator[Violation]:
    """Whoever's result was taken has run, and by the very token that was current.

    In chaos everybody completes a task with a result.
    """
    ran = {(one.task_id, one.token): one.worker for one in executions}
    workers = set(ran.values())
    for task in stored.tasks.values():
        if task.status != "completed":
            continue
        if task.result is None:
            yield Violation("lost", task.id, "is completed, and its result is gone")
            continue
        worker, _, token = task.result.strip('"').rpartition("/")
        if not (token.isascii() and token.isdecimal()):
            yield Violation("damaged", task.id, f"has {task.result}, which nobody gave")
            continue
        if int(token) != task.token:
            yield Violation("zombie", task.id, f"has {task.result} of token {task.token}")
        if worker in workers and (task.id, task.token) not in ran:
            yield Violation("phantom", task.id, f"has {task.result}, and no handler ran")


def figures(
    history: History, stored: Stored, executions: list[Execution], account: Account
) -> Counter[str]:
    """What happened, in numbers."""
    counted = Counter({
        "seconds of chaos": round(account.seconds),
        "processes": account.started,
        "kills": account.kills,
        "stops": len(account.stops),
        "leaves": account.leaves,
        "crashes of all": account.crashes,
        "suspends": account.suspends,
        "recoveries on record": len(stored.runs or {}),
        "workers found dead": sum(event.kind == DIED for event in stored.events),
        "tasks": len(stored.tasks),
        "handlers run": len(executions),
        "calls": len(history.calls),
    })  # fmt: skip
    for call in history.calls:
        if call.outcome != "done":
            counted[f"calls {call.outcome or 'unanswered'}"] += 1
            if call.outcome == "refused":
                counted[f"refused: {str(call.value).partition(':')[0]}"] += 1
        else:
            counted[f"done: {call.verb}"] += 1
    for moves in stored.moves.values():
        for move in moves:
            if move.actor == RECOVERY:
                counted[f"recovered: {move.reason}"] += 1
    return counted
