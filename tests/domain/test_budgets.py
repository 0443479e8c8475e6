from itertools import product
from typing import Any

import pytest

from outlast import Settings
from outlast.domain.budgets import MOST_RECOVERIES, NO_BACKOFF, Backoff, budget_is_spent
from outlast.domain.lifecycle import (
    MAX_RETRIES_EXCEEDED,
    TRANSITIONS,
    Cause,
    Outcome,
    Parked,
    RecoveryAction,
    Situation,
    Status,
    Transition,
    decide,
)
from tests.domain.situations import after, executions_until_final, situation

P, R, F = Status.PENDING, Status.RUNNING, Status.FAILED
CLAIM = Cause(Outcome.CLAIM, "worker")
BROKEN = Cause(Outcome.FAIL, "worker", error="e")
BY_OPERATOR = Cause(Outcome.FAIL, "user", error="e", retryable=False)
BACKED_OFF = BROKEN._replace(backoff=Backoff(1000, 300_000), jitter=1.0)
CRASHED = Cause(Outcome.CRASH, "system/recovery", error="e")
EXPIRED = Cause(Outcome.EXPIRE, "system/recovery", error="e")
TAKEN = Cause(Outcome.TAKE, "operator/ada", error="e")
RELEASED = Cause(Outcome.RELEASE, "worker")


def moved(
    to: Status, reason: str, attempt: int, retries: int, crashes: int, *more: Any
) -> Transition:
    """A move of a task all of whose crashes came in a row."""
    return Transition(to, reason, attempt, retries, crashes, crashes, *more)


# The whole policy in one table: what was, what happened, what follows.
TRUTH: list[tuple[Situation, Cause, Transition]] = [
    (situation(P, attempt=0), CLAIM, moved(R, "claimed", 1, 0, 0)),
    (situation(P, attempt=3, retries=3), CLAIM, moved(R, "claimed", 4, 3, 0)),
    (situation(P, attempt=3, recoveries=3), CLAIM, moved(R, "claimed", 4, 0, 3)),
    (situation(P, attempt=6, retries=3, recoveries=3), CLAIM, moved(R, "claimed", 7, 3, 3)),
    (situation(P, attempt=7, retries=3, recoveries=4), CLAIM,
     moved(F, MAX_RETRIES_EXCEEDED, 7, 3, 4, "it crashed 4 times in a row")),
    (situation(P, attempt=99), CLAIM, moved(R, "claimed", 100, 0, 0)),
    (situation(), BROKEN, moved(P, "retry", 1, 1, 0, "e")),
    (situation(attempt=3, retries=2), BROKEN, moved(P, "retry", 3, 3, 0, "e")),
    (situation(attempt=4, retries=3), BROKEN, moved(F, MAX_RETRIES_EXCEEDED, 4, 3, 0, "e")),
    (situation(attempt=4, recoveries=3), BROKEN, moved(P, "retry", 4, 1, 3, "e")),
    (situation(max_retries=0), BROKEN, moved(F, MAX_RETRIES_EXCEEDED, 1, 0, 0, "e")),
    (situation(), BROKEN._replace(retryable=False),
     moved(F, "permanent_error", 1, 0, 0, "e")),
    (situation(), BACKED_OFF, moved(P, "retry", 1, 1, 0, "e", Parked.DELAY, 1000)),
    (situation(attempt=3, retries=2), BACKED_OFF,
     moved(P, "retry", 3, 3, 0, "e", Parked.DELAY, 4000)),
    (situation(), BACKED_OFF._replace(delay_ms=7),
     moved(P, "retry", 1, 1, 0, "e", Parked.DELAY, 7)),
    (situation(), BACKED_OFF._replace(delay_ms=0), moved(P, "retry", 1, 1, 0, "e")),
    (situation(P, attempt=0), BY_OPERATOR, moved(F, "failed_by_operator", 0, 0, 0, "e")),
    (situation(retries=1), BY_OPERATOR, moved(F, "failed_by_operator", 1, 1, 0, "e")),
    (situation(), CRASHED, moved(P, "crash_retry", 1, 0, 1, "e")),
    (situation(attempt=4, recoveries=3), CRASHED,
     moved(F, MAX_RETRIES_EXCEEDED, 4, 0, 3, "died 4 of 4 times: e")),
    (situation(attempt=4, retries=3), CRASHED, moved(P, "crash_retry", 4, 3, 1, "e")),
    (situation(max_recoveries=0), CRASHED,
     moved(F, MAX_RETRIES_EXCEEDED, 1, 0, 0, "died 1 of 1 times: e")),
    (situation(), EXPIRED, moved(P, "lease_expired_retry", 1, 0, 1, "e")),
    (situation(attempt=4, recoveries=3), EXPIRED,
     moved(F, MAX_RETRIES_EXCEEDED, 4, 0, 3, "lost 4 of 4 times: e")),
    (situation(), TAKEN, moved(P, "taken_retry", 1, 0, 1, "e")),
    (situation(attempt=4, recoveries=3), TAKEN,
     moved(F, MAX_RETRIES_EXCEEDED, 4, 0, 3, "taken 4 of 4 times: e")),
    (situation(), TAKEN._replace(action=RecoveryAction.PENDING),
     moved(P, "taken_reset", 0, 0, 1, "e")),
    (situation(), TAKEN._replace(action=RecoveryAction.FAIL),
     moved(F, "taken_policy_fail", 1, 0, 0, "e")),
    (situation(), CRASHED._replace(action=RecoveryAction.PENDING),
     moved(P, "crash_reset", 0, 0, 1, "e")),
    (situation(recoveries=3), CRASHED._replace(action=RecoveryAction.PENDING),
     moved(F, MAX_RETRIES_EXCEEDED, 1, 0, 3, "died 4 of 4 times: e")),
    (situation(), CRASHED._replace(parked=Parked.HOLD),
     moved(P, "crash_retry", 1, 0, 1, "e", Parked.HOLD)),
    (situation(), EXPIRED._replace(parked=Parked.HOLD),
     moved(P, "lease_expired_retry", 1, 0, 1, "e", Parked.HOLD)),
    (situation(recoveries=3), CRASHED._replace(parked=Parked.HOLD),
     moved(F, MAX_RETRIES_EXCEEDED, 1, 0, 3, "died 4 of 4 times: e")),
    (situation(), CRASHED._replace(action=RecoveryAction.FAIL),
     moved(F, "crash_policy_fail", 1, 0, 0, "e")),
    (situation(), EXPIRED._replace(action=RecoveryAction.FAIL),
     moved(F, "lease_expired_policy_fail", 1, 0, 0, "e")),
    (situation(attempt=2, retries=1), RELEASED, moved(P, "released", 1, 1, 0)),
    (situation(), RELEASED._replace(delay_ms=9),
     moved(P, "released", 0, 0, 0, None, Parked.DELAY, 9)),
    (situation(attempt=2), Cause(Outcome.WAIT, "worker", parked=Parked.EVENT),
     moved(P, "waiting", 1, 0, 0, None, Parked.EVENT)),
    (situation(attempt=2), Cause(Outcome.NEVER_STARTED, "system/recovery"),
     moved(P, "never_started", 1, 0, 0)),
]  # fmt: skip


@pytest.mark.proves("RTY-12")
@pytest.mark.parametrize(("before", "cause", "expected"), TRUTH)
def test_the_same_situation_and_cause_always_give_the_move_in_the_truth_table(
    before: Situation, cause: Cause, expected: Transition
) -> None:
    assert {decide(before, cause) for _ in range(3)} == {expected}


@pytest.mark.proves("RTY-03")
@pytest.mark.parametrize("loss", [BROKEN, BACKED_OFF, CRASHED, EXPIRED])
def test_three_re_runs_are_granted_after_failures_alone_and_after_crashes_alone(
    loss: Cause,
) -> None:
    runs, last = executions_until_final(loss)
    assert (runs, last.to, last.reason, last.attempt) == (4, F, MAX_RETRIES_EXCEEDED, 4)


@pytest.mark.proves("RTY-03")
@pytest.mark.parametrize(("max_retries", "max_recoveries"), [(0, 5), (1, 0), (2, 1)])
def test_each_budget_has_its_own_limit(max_retries: int, max_recoveries: int) -> None:
    limits = {"max_retries": max_retries, "max_recoveries": max_recoveries}
    assert executions_until_final(BROKEN, **limits)[0] == 1 + max_retries
    assert executions_until_final(CRASHED, **limits)[0] == 1 + max_recoveries


@pytest.mark.proves("RTY-05")
def test_putting_back_as_pending_refunds_the_attempt_and_still_ends_with_the_fourth_loss() -> None:
    runs, last = executions_until_final(CRASHED._replace(action=RecoveryAction.PENDING))
    assert (runs, last.to, last.attempt, last.recovery_count) == (4, F, 1, 3)


@pytest.mark.proves("RTY-02")
@pytest.mark.parametrize("outcome", [Outcome.RELEASE, Outcome.WAIT, Outcome.NEVER_STARTED])
def test_release_waiting_and_no_start_refund_the_attempt_and_touch_no_budget(
    outcome: Outcome,
) -> None:
    before = situation(P, attempt=2, retries=1, recoveries=1)
    claimed = after(before, decide(before, CLAIM))
    assert after(claimed, decide(claimed, Cause(outcome, "test"))) == before


@pytest.mark.proves("RTY-02")
@pytest.mark.parametrize("delay_ms", [None, 0, 5000])
def test_a_back_off_never_refunds_the_attempt(delay_ms: int | None) -> None:
    move = decide(situation(attempt=2, retries=1), BACKED_OFF._replace(delay_ms=delay_ms))
    assert (move.attempt, move.retry_count) == (2, 2)


def test_failures_and_crashes_draw_on_separate_budgets() -> None:
    spent_by_failures = situation(attempt=4, retries=3)
    assert decide(spent_by_failures, CRASHED).to is P
    spent_by_crashes = situation(attempt=4, recoveries=3)
    assert decide(spent_by_crashes, BROKEN).to is P


@pytest.mark.proves("RTY-08")
@pytest.mark.parametrize(("max_retries", "max_recoveries"), [(0, 0), (1, 2), (3, 3)])
def test_no_sequence_of_outcomes_takes_a_counter_past_its_limit(
    max_retries: int, max_recoveries: int
) -> None:
    """Walks every situation that can be reached from a new task by any outcome at all."""
    new = situation(P, attempt=0, max_retries=max_retries, max_recoveries=max_recoveries)
    waiting, seen = [new], {new}
    while waiting:
        now = waiting.pop()
        for follows in _successors(now) - seen:
            seen.add(follows)
            waiting.append(follows)
        assert len(seen) < 10_000
    assert len(seen) > 5
    for now in seen:
        assert 0 <= now.retry_count <= max_retries
        assert 0 <= now.crashes_in_row <= now.recovery_count <= max_recoveries
        assert now.attempt >= (1 if now.status is R else 0)


def _successors(now: Situation) -> set[Situation]:
    causes = [
        Cause(outcome, "test", retryable=retryable, action=action)
        for (status, outcome), retryable, action in product(
            TRANSITIONS, (True, False), RecoveryAction
        )
        if status is now.status
    ]
    return {after(now, decide(now, cause)) for cause in causes}


@pytest.mark.proves("RTY-10")
def test_a_pending_task_with_no_execution_left_fails_when_it_is_claimed() -> None:
    assert not budget_is_spent(3, 3)
    assert budget_is_spent(4, 3)
    last_run = situation(P, attempt=3, recoveries=3)
    assert decide(last_run, CLAIM).to is R
    spent = decide(situation(P, attempt=4, recoveries=4), CLAIM)
    assert (spent.to, spent.reason) == (F, MAX_RETRIES_EXCEEDED)


@pytest.mark.proves("RTY-03")
def test_progress_in_between_sets_the_crashes_that_count_back() -> None:
    """Three crashes are taken back without progress; with it, as many as a hundred in all."""
    late = situation(attempt=13, recoveries=12, in_row=0)
    assert decide(late, CRASHED)[:6] == (P, "crash_retry", 13, 0, 13, 1)
    assert decide(late._replace(crashes_in_row=3), CRASHED).error == "died 4 of 4 times: e"
    last = situation(attempt=100, recoveries=MOST_RECOVERIES - 1, in_row=0)
    assert decide(last, CRASHED).to is P
    over = decide(situation(attempt=101, recoveries=MOST_RECOVERIES, in_row=0), CRASHED)
    assert (over.to, over.error) == (F, "died 101 of 101 times: e")


@pytest.mark.proves("RTY-03")
@pytest.mark.parametrize(("own", "policy", "is_failed"), [
    (None, 2, True), (None, 3, False), (2, 9, True), (3, 0, False), (0, 9, True),
])  # fmt: skip
def test_a_task_that_says_nothing_goes_by_the_recoverers_policy(
    own: int | None, policy: int, is_failed: bool
) -> None:
    lost = situation(attempt=3, recoveries=2, max_recoveries=own)
    assert (decide(lost, CRASHED._replace(max_recoveries=policy)).to is F) == is_failed


@pytest.mark.proves("RTY-09")
def test_the_default_back_off_doubles_from_one_second_to_five_minutes() -> None:
    backoff = Settings().backoff
    waits = [backoff.delay_ms(n, jitter=1.0) for n in range(12)]
    assert waits[:9] == [1000 << n for n in range(9)]
    assert waits[9:] == [300_000] * 3
    assert backoff.delay_ms(10**9, jitter=1.0) == 300_000


@pytest.mark.proves("RTY-09")
def test_jitter_spreads_the_upper_half_of_a_wait() -> None:
    backoff = Backoff(1000, 300_000)
    assert [backoff.delay_ms(1, jitter) for jitter in (0.0, 0.25, 1.0)] == [1000, 1250, 2000]


def test_a_first_wait_above_the_cap_is_the_cap_and_no_back_off_is_no_wait() -> None:
    assert Backoff(9000, 2000).delay_ms(0, jitter=1.0) == 2000
    assert NO_BACKOFF.delay_ms(5, jitter=1.0) == 0
