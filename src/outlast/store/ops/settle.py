"""One way out of a state: complete, fail, release, cancel, expire and crash all pass here."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.lifecycle import (
    FINAL,
    RECOVERY,
    Cause,
    Outcome,
    Parked,
    Situation,
    Status,
    Transition,
    decide,
)
from outlast.errors import StoreError, TaskNotFound
from outlast.probes import probe
from outlast.store.ops.enqueue import is_large, stored_bytes
from outlast.store.records import Grant, Settlement
from outlast.store.transaction import Transaction, Values


class TaskRow(NamedTuple):
    """A task's row as far as a decision about it needs it."""

    seq: int
    id: str
    status: str
    attempt: int
    retry_count: int
    recovery_count: int
    crashes_in_row: int
    max_retries: int
    max_recoveries: int | None
    token: int
    holder: int | None
    worker: str | None
    unstarted: int
    keyed: int
    # Known to those who judge orphans.
    kind: str = ""
    heartbeat_at: int | None = None

    @property
    def situation(self) -> Situation:
        """What decide() needs of it."""
        return Situation(Status(self.status), *self[3:9])


Ending = tuple[TaskRow, Cause, str | None]

# Not the worker's own doing: a lease given back for it must not look as if it had settled.
GIVE_BACK = Cause(Outcome.RELEASE, RECOVERY)

# Spares the detour by which a named tuple is usually made.
_new_tuple = tuple.__new__


class Exit(NamedTuple):
    """How the process of one attempt ended, if it had one of its own."""

    signal: int | None
    peak_memory_bytes: int | None


NO_PROCESS = Exit(None, None)
NO_EXITS: Mapping[int, Exit] = {}


class Completion(NamedTuple):
    """The values of a row of complete_tasks, in its order."""

    result: str | None
    result_bytes: int
    result_sum: int
    now: int
    seq: int


def settle_grants(
    tx: Transaction, settlements: Sequence[Settlement], now: Instant
) -> list[bool | None]:
    """End leases by their proofs: True, False if this very lease had ended, None if it is lost."""
    if not settlements:
        return []
    seqs = [settlement.grant.seq for settlement in settlements]
    rows = tx.rows("situations", {"seqs": tx.ids(seqs)})
    task = {row[0]: _new_tuple(TaskRow, row) for row in rows}
    answers: list[bool | None] = []
    endings: list[Ending] = []
    exits: dict[int, Exit] = {}
    ended: set[Grant] = set()
    for grant, _, cause, result, signal, peak_memory_bytes in settlements:
        seq, holder, token = grant
        found = task.get(seq)
        if (
            found is not None
            and found.token == token
            and found.holder == holder
            and found.status == "running"
            and grant not in ended
        ):
            answers.append(True)
            endings.append((found, cause, result))
            ended.add(grant)
            if (signal, peak_memory_bytes) != NO_PROCESS:
                exits[seq] = Exit(signal, peak_memory_bytes)
        elif grant in ended or tx.value("settled_by_grant", grant._asdict()) is not None:
            answers.append(False)
        else:
            answers.append(None)
    move(tx, endings, now, exits)
    return answers


def settle_together(
    tx: Transaction, calls: Sequence[tuple[Sequence[Settlement], Instant]]
) -> list[list[bool | None]]:
    """The endings of several callers in one pass."""
    latest = max(now for _, now in calls)
    together = [one for settlements, _ in calls for one in settlements]
    answers = iter(settle_grants(tx, together, latest))
    return [[next(answers) for _ in settlements] for settlements, _ in calls]


def settle_task(tx: Transaction, task_id: str, cause: Cause, now: Instant) -> None:
    """Move a task for somebody who holds no lease on it."""
    row = tx.row("situation_by_id", {"id": task_id})
    if row is None:
        raise TaskNotFound(task_id)
    move(tx, [(TaskRow(*row), cause, None)], now)


class SameRows(NamedTuple):
    """Rows that one decision fits, of which there is at least one, and why they move."""

    rows: Sequence[TaskRow]
    cause: Cause


class Moved(NamedTuple):
    """Rows that moved alike, why, and where to."""

    rows: Sequence[TaskRow]
    cause: Cause
    transition: Transition


class MoveSet(NamedTuple):
    """The rows that move alike, and those among them that have a result."""

    seqs: list[int]
    results: list[tuple[TaskRow, str]]


class Plan(NamedTuple):
    """What a set of rows has in common when it is moved; counters change by differences."""

    from_: Status
    to: Status
    actor: str
    reason: str
    attempt: int
    retry_count: int
    recovery_count: int
    crashes_in_row: int
    error: str | None
    parked: Parked | None
    delay_ms: int
    process: Exit

    def values(self, seqs: object, now: Instant, run_id: int | None) -> Values:
        """What the statements that log and move such a set are bound to."""
        return {
            "seqs": seqs,
            "from": self.from_.value,
            "to": self.to.value,
            "actor": self.actor,
            "reason": self.reason,
            "attempt": self.attempt,
            "retry_count": self.retry_count,
            "recovery_count": self.recovery_count,
            "crashes_in_row": self.crashes_in_row,
            "error": self.error,
            "parked": self.parked.value if self.parked else None,
            "not_before": now.utc_ms + self.delay_ms if self.parked is Parked.DELAY else None,
            "is_final": int(self.to in FINAL),
            "exit_signal": self.process.signal,
            "peak_memory_bytes": self.process.peak_memory_bytes,
            "run_id": run_id,
            "now": now.utc_ms,
        }


def move(
    tx: Transaction,
    endings: Sequence[Ending],
    now: Instant,
    exits: Mapping[int, Exit] = NO_EXITS,
    run_id: int | None = None,
) -> list[Transition]:
    """Decide and apply each move with its transition row, and finish the keys of the final ones.

    What is alike is decided once and moved as one set: two statements, however many rows. Exits
    are by row, of those attempts that had a process of their own.
    """
    decided: list[Transition] = []
    known: dict[object, tuple[Transition, MoveSet]] = {}
    sets: dict[Plan, MoveSet] = {}
    for found, cause, result in endings:
        process = exits.get(found.seq, NO_PROCESS) if exits else NO_PROCESS
        alike = (found[2:9], id(cause), process)
        if alike not in known:
            transition = decide(found.situation, cause)
            plan = _plan(found, cause, transition, process)
            known[alike] = transition, sets.setdefault(plan, MoveSet([], []))
        transition, rows = known[alike]
        decided.append(transition)
        rows.seqs.append(found.seq)
        if result is not None and transition.to is Status.COMPLETED:
            rows.results.append((found, result))
    for plan, rows in sets.items():
        _move_set(tx, plan, rows, now, run_id)
    if any(found.keyed for found, _, _ in endings):
        _settle_keys(tx, endings, decided, now)
    return decided


def move_alike(
    tx: Transaction, endings: Sequence[SameRows], now: Instant, run_id: int | None = None
) -> list[Moved]:
    """The same for rows of which it is known beforehand which are alike, whatever their number."""
    moved: list[Moved] = []
    sets: dict[Plan, MoveSet] = {}
    for rows, cause in endings:
        transition = decide(rows[0].situation, cause)
        moved.append(Moved(rows, cause, transition))
        plan = _plan(rows[0], cause, transition, NO_PROCESS)
        sets.setdefault(plan, MoveSet([], [])).seqs.extend([row[0] for row in rows])
    for plan, found in sets.items():
        _move_set(tx, plan, found, now, run_id)
    for rows, cause, transition in moved:
        if transition.to in FINAL and any(row.keyed for row in rows):
            singly: list[Ending] = [(row, cause, None) for row in rows]
            _settle_keys(tx, singly, [transition] * len(singly), now)
    return moved


def _plan(found: TaskRow, cause: Cause, transition: Transition, process: Exit) -> Plan:
    return Plan(
        from_=Status(found.status),
        to=transition.to,
        actor=cause.actor,
        reason=transition.reason,
        attempt=transition.attempt - found.attempt,
        retry_count=transition.retry_count - found.retry_count,
        recovery_count=transition.recovery_count - found.recovery_count,
        crashes_in_row=transition.crashes_in_row - found.crashes_in_row,
        error=transition.error,
        parked=transition.parked,
        delay_ms=transition.delay_ms,
        process=process,
    )


def _move_set(tx: Transaction, plan: Plan, rows: MoveSet, now: Instant, run_id: int | None) -> None:
    """The transition first, for it names the holder that the move takes away."""
    values = plan.values(tx.ids(rows.seqs), now, run_id)
    tx.run("log_moves", values)
    probe("settle.logged")
    moved = _complete_with_results(tx, rows.results, now)
    if moved < len(rows.seqs):
        moved += tx.run("finish_tasks" if plan.to is Status.COMPLETED else "move_tasks", values)
    if moved != len(rows.seqs):
        raise StoreError(
            f"{len(rows.seqs)} tasks were to be moved from {plan.from_} to {plan.to} and {moved}"
            " were; nothing was stored. This is a fault of Outlast: please report it"
        )
    tx.run_many(
        "add_result_blob",
        [(found.seq, result) for found, result in rows.results if is_large(result)],
    )
    probe("settle.updated")


def _complete_with_results(
    tx: Transaction, results: Sequence[tuple[TaskRow, str]], now: Instant
) -> int:
    """Results are each row's own, and go in by the hundred."""
    return tx.run_rows(
        "complete_tasks",
        (
            Completion(
                None if is_large(result) else result,
                stored_bytes(result),
                codec.result_sum(found.id, result),
                now.utc_ms,
                found.seq,
            )
            for found, result in results
        ),
    )


def _settle_keys(
    tx: Transaction, endings: Sequence[Ending], decided: Sequence[Transition], now: Instant
) -> None:
    """A final task answers for the idempotency key that made it, in the same transaction."""
    tx.run_many(
        "settle_key",
        [
            {
                "task_id": found.id,
                "status": "completed" if transition.to is Status.COMPLETED else "failed",
                "response": result
                if transition.to is Status.COMPLETED
                else codec.encode({"error": transition.error}, "error", 1 << 30),
                "now": now.utc_ms,
            }
            for (found, _, result), transition in zip(endings, decided, strict=True)
            if found.keyed and transition.to in FINAL
        ],
    )
