"""The one transition table and the pure function that reads it; every move passes through here."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from outlast.domain.budgets import (
    MOST_RECOVERIES,
    NO_BACKOFF,
    USUAL_RECOVERIES,
    Backoff,
    budget_is_spent,
    recovery_limit,
)
from outlast.errors import InvalidTransition


class Status(StrEnum):
    """Where a task rests. Waiting is not a state: a pending task may be parked."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class Parked(StrEnum):
    """Why a pending task is not eligible yet."""

    DELAY = "delay"
    EVENT = "event"
    APPROVAL = "approval"
    HOLD = "hold"
    PARTIAL = "partial"


class Outcome(StrEnum):
    """What happened to a task; together with its status this picks the move."""

    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    RELEASE = "release"
    WAIT = "wait"
    CANCEL = "cancel"
    EXPIRE = "expire"
    CRASH = "crash"
    TAKE = "take"
    NEVER_STARTED = "never_started"


class RecoveryAction(StrEnum):
    """What recovery does with a task whose holder died."""

    RETRY = "retry"
    PENDING = "pending"
    FAIL = "fail"
    NONE = "none"


TRANSITIONS: Mapping[tuple[Status, Outcome], tuple[Status, ...]] = {
    (Status.PENDING, Outcome.CLAIM): (Status.RUNNING, Status.FAILED),
    (Status.PENDING, Outcome.FAIL): (Status.FAILED,),
    (Status.PENDING, Outcome.CANCEL): (Status.CANCELLED,),
    (Status.RUNNING, Outcome.COMPLETE): (Status.COMPLETED,),
    (Status.RUNNING, Outcome.FAIL): (Status.PENDING, Status.FAILED),
    (Status.RUNNING, Outcome.RELEASE): (Status.PENDING,),
    (Status.RUNNING, Outcome.WAIT): (Status.PENDING,),
    (Status.RUNNING, Outcome.CANCEL): (Status.CANCELLED,),
    (Status.RUNNING, Outcome.EXPIRE): (Status.PENDING, Status.FAILED),
    (Status.RUNNING, Outcome.CRASH): (Status.PENDING, Status.FAILED),
    (Status.RUNNING, Outcome.TAKE): (Status.PENDING, Status.FAILED),
    (Status.RUNNING, Outcome.NEVER_STARTED): (Status.PENDING,),
}

LEGAL_MOVES = frozenset((start, end) for (start, _), ends in TRANSITIONS.items() for end in ends)


class Situation(NamedTuple):
    """What decide() needs to know of a task before the move."""

    status: Status
    attempt: int
    retry_count: int
    recovery_count: int
    crashes_in_row: int
    max_retries: int
    max_recoveries: int | None
    """None: as the recoverer's policy says."""


class Cause(NamedTuple):
    """What happened, by whom, and the policy that applies to it."""

    outcome: Outcome
    actor: str
    error: str | None = None
    retryable: bool = True
    delay_ms: int | None = None
    parked: Parked | None = None
    action: RecoveryAction = RecoveryAction.RETRY
    max_recoveries: int = USUAL_RECOVERIES
    """How many crashes in a row are taken back of a task that says nothing of it."""
    backoff: Backoff = NO_BACKOFF
    jitter: float = 1.0
    summary: str | None = None
    """How a loss reads when it was one too many: in which kind, and of what."""


class Transition(NamedTuple):
    """The decision: the state to move to, why, and every counter's new value."""

    to: Status
    reason: str
    attempt: int
    retry_count: int
    recovery_count: int
    crashes_in_row: int
    error: str | None = None
    parked: Parked | None = None
    delay_ms: int = 0


WORKER = "worker"
OPERATOR = "user"
NAMED_OPERATOR = "operator/"
RECOVERY = "system/recovery"
MAX_RETRIES_EXCEEDED = "max_retries_exceeded"


def decide(situation: Situation, cause: Cause) -> Transition:
    """Map a situation and a cause to the one move that follows; the same inputs, the same move."""
    if (situation.status, cause.outcome) not in TRANSITIONS:
        raise InvalidTransition(
            f"a task that is {situation.status} cannot be moved by {cause.outcome!s};"
            " look at its history to see who settled it"
        )
    return _RULES[cause.outcome](situation, cause)


def _unchanged(situation: Situation, to: Status, reason: str, error: str | None) -> Transition:
    return Transition(
        to, reason, situation.attempt, situation.retry_count, situation.recovery_count,
        situation.crashes_in_row, error,
    )  # fmt: skip


def _claim(situation: Situation, cause: Cause) -> Transition:
    if budget_is_spent(situation.crashes_in_row, situation.max_recoveries):
        error = f"it crashed {situation.crashes_in_row} times in a row"
        return _unchanged(situation, Status.FAILED, MAX_RETRIES_EXCEEDED, error)
    moved = _unchanged(situation, Status.RUNNING, "claimed", None)
    return moved._replace(attempt=situation.attempt + 1)


def _complete(situation: Situation, cause: Cause) -> Transition:
    return _unchanged(situation, Status.COMPLETED, "completed", None)


def _cancel(situation: Situation, cause: Cause) -> Transition:
    return _unchanged(situation, Status.CANCELLED, "cancelled", cause.error)


def _fail(situation: Situation, cause: Cause) -> Transition:
    if situation.status is Status.PENDING or not cause.retryable:
        by_operator = cause.actor == OPERATOR or cause.actor.startswith(NAMED_OPERATOR)
        reason = "failed_by_operator" if by_operator else "permanent_error"
        return _unchanged(situation, Status.FAILED, reason, cause.error)
    if situation.retry_count >= situation.max_retries:
        return _unchanged(situation, Status.FAILED, MAX_RETRIES_EXCEEDED, cause.error)
    delay_ms = cause.delay_ms
    if delay_ms is None:
        delay_ms = cause.backoff.delay_ms(situation.retry_count, cause.jitter)
    return _unchanged(situation, Status.PENDING, "retry", cause.error)._replace(
        retry_count=situation.retry_count + 1,
        parked=Parked.DELAY if delay_ms > 0 else None,
        delay_ms=delay_ms,
    )


def _refund(situation: Situation, cause: Cause) -> Transition:
    """Put the task back with its attempt uncharged: a release, its own wait, or no start at all."""
    parked = cause.parked
    delay_ms = cause.delay_ms or 0
    if parked is None and delay_ms > 0:
        parked = Parked.DELAY
    back = _unchanged(situation, Status.PENDING, _REFUND_REASONS[cause.outcome], cause.error)
    return back._replace(attempt=situation.attempt - 1, parked=parked, delay_ms=delay_ms)


def _recover(situation: Situation, cause: Cause) -> Transition:
    """A holder that died, went silent past its lease, or lost its task by an operator's word:
    charge the crash budget, then put back. What counts is how often that happened in a row, without
    any progress in between."""
    reason = _LOSS_REASONS[cause.outcome]
    if cause.action is RecoveryAction.FAIL:
        return _unchanged(situation, Status.FAILED, f"{reason}_policy_fail", cause.error)
    limit = recovery_limit(situation.max_recoveries, cause.max_recoveries)
    if situation.crashes_in_row >= limit or situation.recovery_count >= MOST_RECOVERIES:
        error = _once_too_often(situation, cause, limit)
        return _unchanged(situation, Status.FAILED, MAX_RETRIES_EXCEEDED, error)
    refunded = cause.action is RecoveryAction.PENDING
    suffix = "reset" if refunded else "retry"
    return _unchanged(situation, Status.PENDING, f"{reason}_{suffix}", cause.error)._replace(
        attempt=situation.attempt - 1 if refunded else situation.attempt,
        recovery_count=situation.recovery_count + 1,
        crashes_in_row=situation.crashes_in_row + 1,
        parked=cause.parked,
    )


def _once_too_often(situation: Situation, cause: Cause, limit: int) -> str:
    """The sentence by which a person learns why a task is not tried again."""
    count, most = situation.crashes_in_row + 1, limit + 1
    if count < most:
        count = most = situation.recovery_count + 1
    times = f"{_LOSS_VERBS[cause.outcome]} {count} of {most} times"
    return f"{times} {cause.summary}" if cause.summary else f"{times}: {cause.error}"


_LOSS_REASONS = {Outcome.EXPIRE: "lease_expired", Outcome.CRASH: "crash", Outcome.TAKE: "taken"}
_LOSS_VERBS = {Outcome.EXPIRE: "lost", Outcome.CRASH: "died", Outcome.TAKE: "taken"}

_REFUND_REASONS = {
    Outcome.RELEASE: "released",
    Outcome.WAIT: "waiting",
    Outcome.NEVER_STARTED: "never_started",
}

_RULES = {
    Outcome.CLAIM: _claim,
    Outcome.COMPLETE: _complete,
    Outcome.FAIL: _fail,
    Outcome.RELEASE: _refund,
    Outcome.WAIT: _refund,
    Outcome.CANCEL: _cancel,
    Outcome.EXPIRE: _recover,
    Outcome.CRASH: _recover,
    Outcome.TAKE: _recover,
    Outcome.NEVER_STARTED: _refund,
}
