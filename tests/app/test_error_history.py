"""What went wrong in each attempt is kept; the task itself shows the last of it."""

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.support.foreign import foreign_rows

ERRORS = ["the first error", "the second error", "the third error"]


def fail_with(app: Outlast, clock: ManualClock, error: str) -> None:
    clock.advance("1h")
    (lease,) = app.claim("w", lease="10h")
    lease.fail(error)


@pytest.mark.proves("RTY-11")
def test_three_failures_leave_three_rows_each_with_its_own_error(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    for n, error in enumerate(ERRORS, 1):
        fail_with(app, clock, error)
        assert app.get("t1").error == error
        assert len([move for move in app.history("t1") if move.error]) == n
    failures = [move for move in app.history("t1") if move.error]
    assert [(move.attempt, move.error) for move in failures] == list(enumerate(ERRORS, 1))
    assert len({move.at for move in failures}) == 3
    app.close()
    rows = foreign_rows(
        app.path, "SELECT attempt, error FROM transitions WHERE error IS NOT NULL ORDER BY pos"
    )
    assert rows == [[n, error] for n, error in enumerate(ERRORS, 1)]


@pytest.mark.proves("RTY-11")
def test_the_errors_stay_when_the_task_succeeds_in_the_end(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    for error in ERRORS[:2]:
        fail_with(app, clock, error)
    clock.advance("1h")
    app.claim("lost")
    clock.advance("5m")
    (lease,) = app.claim("w")
    lease.complete("at last")
    assert app.get("t1").error is None
    kept = [move.error for move in app.history("t1") if move.error]
    assert kept == [*ERRORS[:2], "the lease of worker lost ran out"]
