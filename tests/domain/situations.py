"""Situations and causes with plain defaults, so that a test names only what it is about."""

from outlast.domain.lifecycle import Cause, Outcome, Situation, Status, Transition, decide


def situation(
    status: Status = Status.RUNNING,
    *,
    attempt: int = 1,
    retries: int = 0,
    recoveries: int = 0,
    max_retries: int = 3,
    max_recoveries: int | None = 3,
    in_row: int | None = None,
) -> Situation:
    """Unless `in_row` says otherwise, all crashes came without any progress in between."""
    in_row = recoveries if in_row is None else in_row
    return Situation(status, attempt, retries, recoveries, in_row, max_retries, max_recoveries)


def after(before: Situation, move: Transition) -> Situation:
    """The situation a move leads to."""
    return Situation(
        move.to,
        move.attempt,
        move.retry_count,
        move.recovery_count,
        move.crashes_in_row,
        before.max_retries,
        before.max_recoveries,
    )


def executions_until_final(loss: Cause, **limits: int) -> tuple[int, Transition]:
    """How often a task runs when each run ends in the same loss, and the move that ends it."""
    now = situation(Status.PENDING, attempt=0, **limits)
    for runs in range(1, 100):
        now = after(now, decide(now, Cause(Outcome.CLAIM, "worker")))
        assert now.status is Status.RUNNING
        move = decide(now, loss)
        now = after(now, move)
        if move.to is not Status.PENDING:
            return runs, move
    raise AssertionError("the task was still being retried after 99 runs")
