"""The rule by which workers are called dead and tasks orphans, over all that can be known."""

import itertools

import pytest

from outlast.domain.orphans import (
    Judgement,
    Liveness,
    Orphaned,
    Patience,
    Sign,
    judge_task,
    judge_worker,
)

PATIENCE = Patience(stale_ms=90_000, grace_ms=10_000)
HEARD_OF, AT_THE_THRESHOLD, STALE = 0, 90_000, 90_001
IN_GRACE, PAST_ALL_PATIENCE = 100_000, 100_001
SILENCES = (HEARD_OF, 89_999, AT_THE_THRESHOLD, STALE, IN_GRACE, PAST_ALL_PATIENCE)

A, S, D = Liveness.ALIVE, Liveness.STALE, Liveness.DEAD
WORKERS = {
    Sign.LOCK_FREE: (D, D, D, D, D, D),
    Sign.LOCK_HELD: (A, A, A, S, S, S),
    Sign.PROCESS_GONE: (D, D, D, D, D, D),
    Sign.PROCESS_THERE: (A, A, A, S, S, S),
    Sign.NONE: (A, A, A, S, S, D),
}
CELLS = [
    (sign, silent_ms, expected)
    for sign, row in WORKERS.items()
    for silent_ms, expected in zip(SILENCES, row, strict=True)
]


@pytest.mark.proves("REC-11", "HB-07", "HB-08", "TST-01", "TST-02")
@pytest.mark.parametrize(("sign", "silent_ms", "expected"), CELLS)
def test_who_lives_is_judged_by_lock_then_process_then_silence(
    sign: Sign, silent_ms: int, expected: Liveness
) -> None:
    judgement = judge_worker(sign, silent_ms, PATIENCE)
    assert judgement.liveness is expected
    assert judgement.because.startswith(sign.value)
    assert judgement.is_dead == (expected is Liveness.DEAD)


def test_the_table_knows_every_sign() -> None:
    assert set(WORKERS) == set(Sign)


HOLDERS = [None, *(Judgement(one, "") for one in Liveness)]
LEASES_LEFT_MS = [None, -1, 0, 1]
TASKS: dict[tuple[Liveness | None, int | None], Orphaned | None] = {
    **{(None, left): Orphaned.NO_HOLDER for left in LEASES_LEFT_MS},
    **{(one, None): Orphaned.NO_HOLDER for one in Liveness},
    **{(Liveness.DEAD, left): Orphaned.HOLDER_DEAD for left in (-1, 0, 1)},
    **{(one, left): Orphaned.LEASE_RAN_OUT for one in (A, S) for left in (-1, 0)},
    **{(one, 1): None for one in (A, S)},
}


@pytest.mark.proves("REC-11", "HEAL-24", "TST-01")
@pytest.mark.parametrize(("holder", "left_ms"), list(itertools.product(HOLDERS, LEASES_LEFT_MS)))
def test_a_task_is_an_orphan_without_holder_by_its_death_or_by_its_lease(
    holder: Judgement | None, left_ms: int | None
) -> None:
    liveness = None if holder is None else holder.liveness
    assert judge_task(holder, left_ms) is TASKS[liveness, left_ms]
