"""What people do to tasks by their word: who did it, which move follows, and the record of it."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from outlast.domain.escaping import shown
from outlast.domain.lifecycle import (
    FINAL,
    NAMED_OPERATOR,
    Cause,
    Outcome,
    Situation,
    Status,
)
from outlast.domain.names import checked_name
from outlast.domain.record import record
from outlast.errors import InvalidInput, InvalidTransition

LIBRARY = "library"
MAX_REASON_CHARACTERS = 1000
NOT_THERE = "none"
"""Stands for the status of a task that there is not."""


class Act(StrEnum):
    """What an operator may do to a task."""

    CANCEL = "cancel"
    FAIL = "fail"
    RETRY = "retry"
    PENDING = "pending"
    PARK = "park"
    UNPARK = "unpark"
    APPROVE = "approve"
    CLONE = "clone"


FORCED = (Act.RETRY, Act.FAIL, Act.PENDING)


class Signature(NamedTuple):
    """Who acts, by which way in, and what for."""

    actor: str
    source: str
    reason: str | None = None


@record(frozen=True, slots=True)
class AuditRecord:
    """Who did what to what, and how it ended."""

    id: int
    """Rises; read on behind the last one. Of an item it is its place in the event stream."""
    at: datetime
    actor: str
    source: str
    action: str
    status: str
    subject: str | None
    run_id: int | None
    data: Mapping[str, Any]


@record(frozen=True, slots=True)
class Forced:
    """What became of one task that an operator acted on."""

    task_id: str
    status: str
    """As it is now."""
    is_changed: bool
    new_id: str | None = None
    """The task that runs in its place, if it was final."""
    refused: str | None = None
    """Why it was left as it is."""


def signed(by: str, source: str = LIBRARY, reason: str | None = None) -> Signature:
    """The checked name of who acts, as it stands in the record."""
    actor = NAMED_OPERATOR + checked_name(by, "by")
    return Signature(actor, checked_name(source, "source"), reason)


def checked_reason(reason: str | None) -> str | None:
    """What for, in a sentence or two; or nothing."""
    is_text = isinstance(reason, str) and reason.strip()
    if reason is not None and not (is_text and len(reason) <= MAX_REASON_CHARACTERS):
        raise InvalidInput(
            f"reason must be a text of 1 to {MAX_REASON_CHARACTERS} characters that says what for"
        )
    return reason


def checked_force(action: str) -> Act:
    """One of the three that can be forced."""
    if action not in FORCED:
        raise InvalidInput(f"action must be retry, fail or pending, not {shown(action)}")
    return Act(action)


def cause_of(situation: Situation, act: Act, by: Signature) -> Cause | None:
    """The cause of the move that follows; None when the task waits already.

    A forced retry counts as a failed attempt while there are retries left, and is granted without
    being counted when there are none: who forces it means it.
    """
    said = f"{act} by {by.actor}" + (f": {by.reason}" if by.reason else "")
    if act is Act.CANCEL:
        return Cause(Outcome.CANCEL, by.actor, error=by.reason)
    if act is Act.FAIL:
        return Cause(Outcome.FAIL, by.actor, error=by.reason or said, retryable=False)
    if situation.status in FINAL:
        raise InvalidTransition(
            f"a task that is {situation.status} stays so; force retry runs it anew as another task"
        )
    if situation.status is Status.PENDING:
        return None
    if act is Act.RETRY and situation.retry_count < situation.max_retries:
        return Cause(Outcome.FAIL, by.actor, error=said, retryable=True, delay_ms=0)
    return Cause(Outcome.RELEASE, by.actor, error=said)
