"""One way out of a state: complete, fail, release, cancel, expire and crash all pass here."""

from collections.abc import Sequence
from typing import NamedTuple

from outlast._probe import probe
from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.lifecycle import FINAL, Cause, Parked, Situation, Status, Transition, decide
from outlast.errors import LeaseLost, TaskNotFound
from outlast.store.base import Grant, Settlement
from outlast.store.sqlite.enqueue import is_large, stored_bytes
from outlast.store.sqlite.transaction import Transaction, Values, int_array


class Standing(NamedTuple):
    """A task's row as far as a decision about it needs it."""

    seq: int
    id: str
    status: str
    attempt: int
    retry_count: int
    recovery_count: int
    max_retries: int
    max_recoveries: int
    token: int
    holder: int | None
    worker: str | None
    unstarted: int
    keyed: int
    state_changed_at: int
    lease_expires_at: int | None
    lease_expires_mono_ms: int | None

    @property
    def situation(self) -> Situation:
        """What decide() needs of it."""
        return Situation(Status(self.status), *self[3:8])


Ending = tuple[Standing, Cause, str | None]


def settle_grants(
    tx: Transaction, settlements: Sequence[Settlement], now: Instant
) -> tuple[list[bool], list[str]]:
    """End leases by their proofs; returns what was settled here, and the ids of lost leases."""
    seqs = [settlement.grant.seq for settlement in settlements]
    rows = tx.rows("situations", {"seqs": int_array(seqs)}) if seqs else []
    standing = {row[0]: Standing(*row) for row in rows}
    answers: list[bool] = []
    endings: list[Ending] = []
    ended: set[Grant] = set()
    lost: list[str] = []
    for grant, task_id, cause, result in settlements:
        found = standing.get(grant.seq)
        stands = found is not None and is_current(found, grant)
        answers.append(stands)
        if stands and found is not None:
            endings.append((found, cause, result))
            ended.add(grant)
            del standing[grant.seq]
        elif grant not in ended and tx.value("settled_by_grant", grant._asdict()) is None:
            lost.append(task_id)
    move(tx, endings, now)
    return answers, lost


def is_current(found: Standing, grant: Grant) -> bool:
    """Whether a proof of ownership names the present holder."""
    return (
        found.status == Status.RUNNING
        and found.holder == grant.holder
        and found.token == grant.token
    )


def settle_task(tx: Transaction, task_id: str, cause: Cause, now: Instant) -> None:
    """Move a task for somebody who holds no lease on it."""
    row = tx.row("situation_by_id", {"id": task_id})
    if row is None:
        raise TaskNotFound(task_id)
    move(tx, [(Standing(*row), cause, None)], now)


def move(tx: Transaction, endings: Sequence[Ending], now: Instant) -> list[Transition]:
    """Decide and apply each move with its transition row, and finish the keys of the final ones."""
    decided = [decide(found.situation, cause) for found, cause, _ in endings]
    moves = [
        _values(found, cause, result, transition, now)
        for (found, cause, result), transition in zip(endings, decided, strict=True)
    ]
    settled = tx.rows_of_many("settle_task", moves)
    if len(settled) != len(moves):
        raise LeaseLost([found.id for found, _, _ in endings])
    probe("settle.updated")
    tx.run_many("log_transition", moves)
    _store_large_results(tx, endings)
    _settle_keys(tx, endings, decided, now)
    return decided


def _values(
    found: Standing, cause: Cause, result: str | None, transition: Transition, now: Instant
) -> Values:
    at = max(now.utc_ms, found.state_changed_at)
    completed = transition.to is Status.COMPLETED
    return {
        "seq": found.seq,
        "token": found.token,
        "holder": found.holder,
        "worker": found.worker,
        "from": found.status,
        "to": transition.to.value,
        "actor": cause.actor,
        "reason": transition.reason,
        "attempt": transition.attempt,
        "retry_count": transition.retry_count,
        "recovery_count": transition.recovery_count,
        "parked": transition.parked.value if transition.parked else None,
        "not_before": now.utc_ms + transition.delay_ms
        if transition.parked is Parked.DELAY
        else None,
        "error": transition.error,
        "result": None if is_large(result) else result,
        "result_bytes": stored_bytes(result),
        "result_sum": codec.result_sum(found.id, result) if completed else None,
        "completed_at": at if transition.to in FINAL else None,
        "at": at,
    }


def _store_large_results(tx: Transaction, endings: Sequence[Ending]) -> None:
    tx.run_many(
        "add_blob",
        [
            {"id": found.id, "part": "result", "data": result}
            for found, _, result in endings
            if is_large(result)
        ],
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
