"""The way out of a lease: complete, fail, release and park are causes handed to one settle."""

from collections.abc import Callable, Sequence
from typing import Any

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.escaping import shown
from outlast.domain.lifecycle import (
    OPERATOR,
    WORKER,
    Cause,
    Outcome,
    Parked,
    RecoveryAction,
    Status,
)
from outlast.domain.status_words import checked_stage
from outlast.domain.task import Task
from outlast.errors import (
    InvalidInput,
    InvalidTransition,
    LeaseLost,
    OutlastError,
    PermanentError,
)
from outlast.store.future import Future
from outlast.store.records import Claimed, Settlement, Statement
from outlast.store.session import Session
from outlast.tasks.enqueue import checked_statements, existing

Answers = Callable[[], list[bool]]

MAX_ERROR_CHARACTERS = 10_000


def complete(
    session: Session, claimed: Claimed, result: Any, also: Sequence[Statement] = ()
) -> Future[bool]:
    """Finish a task with its result."""
    return _settle(session, claimed, _COMPLETED, _encoded(result), checked_statements(also))


def complete_many(session: Session, ended: Sequence[tuple[Session, Claimed, Any]]) -> list[bool]:
    """Finish many tasks in one transaction; those whose leases are lost are named afterwards."""
    current = [
        Settlement(claimed.grant, claimed.task_id, _COMPLETED, _encoded(result))
        for of, claimed, result in ended
        if of is session
    ]
    lost = [claimed.task_id for of, claimed, _ in ended if of is not session]
    answers: list[bool] = []
    try:
        if current:
            answers = session.store.leases.settle(current, session.now())
    except LeaseLost as error:
        lost += error.task_ids
    session.forget([settlement.grant for settlement in current])
    if lost:
        kept = len(ended) - len(lost)
        raise LeaseLost(lost, f" ({kept} others were settled)" if kept else "")
    return answers


def fail(
    session: Session,
    claimed: Claimed,
    error: str | BaseException,
    retry: bool,
    delay: Duration | None,
) -> Future[bool]:
    """Record a failed attempt; a PermanentError is final whatever retries are left."""
    cause = Cause(
        Outcome.FAIL,
        WORKER,
        error=error_text(error),
        retryable=retry and not isinstance(error, PermanentError),
        delay_ms=None if delay is None else duration_ms(delay, "delay"),
        backoff=session.settings.backoff,
        jitter=session.jitter(),
    )
    return _settle(session, claimed, cause)


def release(session: Session, claimed: Claimed, delay: Duration | None) -> Future[bool]:
    """Hand a task back unspent."""
    delay_ms = None if delay is None else duration_ms(delay, "delay")
    return _settle(session, claimed, Cause(Outcome.RELEASE, WORKER, delay_ms=delay_ms))


def park(
    session: Session, claimed: Claimed, reason: Parked | str, delay: Duration | None
) -> Future[bool]:
    """Hand a task back to wait; a delay is a wait for time alone."""
    parked = checked_reason(reason)
    if (parked is Parked.DELAY) != (delay is not None):
        raise InvalidInput('a delay goes with the reason "delay", and only with it')
    delay_ms = None if delay is None else duration_ms(delay, "delay")
    return _settle(session, claimed, Cause(Outcome.WAIT, WORKER, parked=parked, delay_ms=delay_ms))


def cancel(session: Session, task_id: str) -> bool:
    """Stop a task for good; False when it was cancelled already."""
    try:
        session.store.tasks.settle_by_id(task_id, Cause(Outcome.CANCEL, OPERATOR), session.now())
    except InvalidTransition:
        if existing(session, task_id).status is Status.CANCELLED:
            return False
        raise
    return True


def fail_by_operator(session: Session, task_id: str, error: str) -> Task:
    """Fail a task for good by an operator's word; a holder finds its lease lost."""
    cause = Cause(Outcome.FAIL, OPERATOR, error=error_text(error), retryable=False)
    return session.store.tasks.settle_by_id(task_id, cause, session.now())


def renew(
    session: Session, claimed: Claimed, now: Instant, stage: str | None = None
) -> Future[None]:
    """Push a lease out; raises LeaseLost if it is no longer ours."""
    session.refuse_strangers(claimed.task_id)
    stage = None if stage is None else checked_stage(stage)

    def finish(renewed: Answers) -> None:
        if not all(renewed()):
            session.forget([claimed.grant])
            raise LeaseLost(claimed.task_id)

    return session.store.leases.renew_soon(
        [claimed.grant], now, claimed.lease_ms, stage, session.now
    ).then(finish)


def start(session: Session, claimed: Claimed) -> None:
    """Note that a prefetched task's work begins."""
    session.refuse_strangers(claimed.task_id)
    if claimed.grant not in session.held:
        raise LeaseLost(claimed.task_id)
    session.store.leases.note_start(claimed.grant)
    session.unstarted.discard(claimed.grant)


def release_all(session: Session, error: BaseException | None = None) -> None:
    """Give back every lease a session still has out: uncharged, unless an error drove us out.

    Work that ends its own process by an error would otherwise come back for ever.
    """
    with session.mutex:
        session.ended = True
        held, unstarted = list(session.held.items()), session.unstarted
        session.held, session.unstarted = {}, set()
    settlements = [
        Settlement(grant, task_id, _left(session, kind, None if grant in unstarted else error))
        for grant, (task_id, kind) in held
    ]
    if not settlements:
        return
    try:
        session.store.leases.settle(settlements, session.now())
    except LeaseLost as lost:
        session.log.info("closing: %s", lost)


def _left(session: Session, kind: str, error: BaseException | None) -> Cause:
    """Why a lease ends with its opening; a kind that nobody may touch waits for a person."""
    if error is None:
        return Cause(Outcome.RELEASE, WORKER)
    action = session.settings.action_for(kind)
    is_for_a_person = action is RecoveryAction.NONE
    return Cause(
        Outcome.CRASH,
        WORKER,
        error=f"the process left its work: {error_text(error)}",
        action=RecoveryAction.RETRY if is_for_a_person else action,
        max_recoveries=session.settings.max_recovery_attempts,
        parked=Parked.HOLD if is_for_a_person else None,
    )


def give_back(session: Session, claimed: Sequence[Claimed]) -> None:
    """Release leases that nobody is there to work on; what goes wrong is for recovery to mend."""
    released = Cause(Outcome.RELEASE, WORKER)
    settlements = [Settlement(one.grant, one.task_id, released) for one in claimed]
    try:
        session.store.leases.settle(settlements, session.now())
    except OutlastError as error:
        session.log.warning("giving back %d tasks: %s", len(claimed), error)
    session.forget([one.grant for one in claimed])


def error_text(error: object) -> str:
    """What is kept of an error: its type and message, capped; never local values."""
    if isinstance(error, str) and error:
        text = error
    elif isinstance(error, BaseException):
        text = f"{type(error).__name__}: {error}"
    elif isinstance(error, type) and issubclass(error, BaseException):
        text = error.__name__
    else:
        raise InvalidInput(
            f"error must be an exception or a text that says why, not {shown(error)}"
        )
    text = text.encode(errors="backslashreplace").decode()
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    return text[:MAX_ERROR_CHARACTERS] + f" … ({len(text)} characters in all)"


def checked_reason(reason: Parked | str) -> Parked:
    """A reason to be parked, by name."""
    try:
        return Parked(reason)
    except ValueError:
        known = ", ".join(word.value for word in Parked)
        raise InvalidInput(f"a task is parked for one of {known}, not {shown(reason)}") from None


_COMPLETED = Cause(Outcome.COMPLETE, WORKER)


def _encoded(result: Any) -> str | None:
    return None if result is None else codec.encode(result, "result")


def _settle(
    session: Session,
    claimed: Claimed,
    cause: Cause,
    result: str | None = None,
    also: Sequence[Statement] = (),
) -> Future[bool]:
    session.refuse_strangers(claimed.task_id)
    settlement = Settlement(claimed.grant, claimed.task_id, cause, result)

    def finish(settled: Answers) -> bool:
        try:
            (answer,) = settled()
        except LeaseLost:
            session.forget([claimed.grant])
            raise
        session.forget([claimed.grant])
        return answer

    return session.store.leases.settle_soon([settlement], session.now(), also).then(finish)
