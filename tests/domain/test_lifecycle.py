from itertools import product

import pytest

from outlast.domain.lifecycle import (
    FINAL,
    LEGAL_MOVES,
    Cause,
    Outcome,
    Parked,
    RecoveryAction,
    Situation,
    Status,
    decide,
)
from outlast.errors import InvalidTransition
from tests.domain.situations import situation

P, R, C, F, X = (
    Status.PENDING,
    Status.RUNNING,
    Status.COMPLETED,
    Status.FAILED,
    Status.CANCELLED,
)

SEVEN_EDGES = {(P, R), (R, C), (R, F), (R, P), (P, F), (P, X), (R, X)}

# Written down a second time, by hand: where each outcome may lead. Every other pair is refused.
LEADS_TO = {
    (P, Outcome.CLAIM): {R, F},
    (P, Outcome.FAIL): {F},
    (P, Outcome.CANCEL): {X},
    (R, Outcome.COMPLETE): {C},
    (R, Outcome.FAIL): {P, F},
    (R, Outcome.RELEASE): {P},
    (R, Outcome.WAIT): {P},
    (R, Outcome.CANCEL): {X},
    (R, Outcome.EXPIRE): {P, F},
    (R, Outcome.CRASH): {P, F},
    (R, Outcome.TAKE): {P, F},
    (R, Outcome.NEVER_STARTED): {P},
}

ALL_PAIRS = list(product(Status, Outcome))


def _situations(status: Status) -> list[Situation]:
    """Everything the budgets can be when both limits are 2, and crashes beyond them."""
    return [
        situation(status, attempt=a, retries=r, recoveries=c, max_retries=2, max_recoveries=2)
        for a, r, c in product(range(1, 7), range(3), range(4))
    ]


def _causes(outcome: Outcome) -> list[Cause]:
    return [
        Cause(outcome, "test", error="e", retryable=retryable, delay_ms=delay, action=action)
        for retryable, delay, action in product((True, False), (None, 0, 50), RecoveryAction)
    ]


@pytest.mark.proves("QUE-03")
@pytest.mark.parametrize(("status", "outcome"), ALL_PAIRS)
def test_every_pair_of_state_and_outcome_leads_where_the_table_says_or_is_refused(
    status: Status, outcome: Outcome
) -> None:
    reached = set()
    for now, cause in product(_situations(status), _causes(outcome)):
        if (status, outcome) in LEADS_TO:
            reached.add(decide(now, cause).to)
        else:
            with pytest.raises(InvalidTransition):
                decide(now, cause)
    assert reached == LEADS_TO.get((status, outcome), set())


@pytest.mark.proves("QUE-03")
def test_the_legal_moves_are_the_seven_edges() -> None:
    assert LEGAL_MOVES == SEVEN_EDGES


def test_nothing_leads_out_of_a_final_state() -> None:
    assert {C, F, X} == FINAL
    assert not [move for move in LEGAL_MOVES if move[0] in FINAL]


def test_a_refusal_names_the_state_and_the_outcome() -> None:
    with pytest.raises(InvalidTransition, match=r"completed cannot be moved by cancel"):
        decide(situation(C), Cause(Outcome.CANCEL, "user"))


@pytest.mark.proves("QUE-02")
def test_there_are_five_resting_states_and_five_reasons_to_be_parked() -> None:
    assert {status.value for status in Status} == {
        "pending", "running", "completed", "failed", "cancelled",
    }  # fmt: skip
    assert {reason.value for reason in Parked} == {
        "delay", "event", "approval", "hold", "partial",
    }  # fmt: skip


@pytest.mark.parametrize("reason", list(Parked))
def test_a_task_that_waits_goes_back_parked_for_its_reason(reason: Parked) -> None:
    move = decide(situation(), Cause(Outcome.WAIT, "worker", parked=reason, delay_ms=70))
    assert (move.to, move.parked, move.delay_ms) == (P, reason, 70)


@pytest.mark.parametrize("outcome", [Outcome.EXPIRE, Outcome.CRASH, Outcome.NEVER_STARTED])
def test_recovery_puts_back_without_delay(outcome: Outcome) -> None:
    move = decide(situation(), Cause(outcome, "system/recovery"))
    assert (move.to, move.parked, move.delay_ms) == (P, None, 0)


def test_only_failing_moves_carry_the_error_given() -> None:
    kept = {
        outcome: decide(situation(), Cause(outcome, "test", error="broken")).error
        for outcome in (Outcome.COMPLETE, Outcome.FAIL, Outcome.CRASH, Outcome.EXPIRE)
    }
    assert kept == {
        Outcome.COMPLETE: None,
        Outcome.FAIL: "broken",
        Outcome.CRASH: "broken",
        Outcome.EXPIRE: "broken",
    }
