"""A task that cannot be taken back is named and passed over; a failing disk is nobody's fault."""

from collections.abc import Callable
from typing import Any

import apsw
import pytest

from outlast import DatabaseError, Outlast
from outlast.store.ops.recovery import orphan_batches
from outlast.testing import ManualClock
from tests.store.hand import Hand

NOT_THIS_ONE = """
CREATE TRIGGER not_this_one BEFORE UPDATE OF status ON tasks WHEN old.id = 'stubborn'
BEGIN SELECT RAISE(ABORT, 'it is frozen'); END
"""


def lose(app: Outlast, clock: ManualClock, *task_ids: str) -> None:
    app.enqueue_many("work", range(len(task_ids)), id=list(task_ids))
    app.claim("w", limit=len(task_ids), lease="10s")
    clock.advance("1m")


@pytest.mark.parametrize("batch", [1, 2, 2000])
def test_a_task_that_cannot_be_moved_is_listed_and_does_not_stop_the_rest(
    make_app: Callable[..., Outlast], clock: ManualClock, batch: int
) -> None:
    app = make_app(heal_batch=batch)
    lose(app, clock, "a", "stubborn", "b")
    hand = Hand(app.path)
    hand.run(NOT_THIS_ONE)
    report = app.recover()
    assert (report.tasks_put_back, report.was_successful()) == (2, False)
    (passed_over,) = report.unrecovered
    assert passed_over.task_id == "stubborn"
    assert "it is frozen" in passed_over.error
    assert {app.get(one).status for one in ("a", "b")} == {"pending"}
    assert app.get("stubborn").status == "running"
    hand.run("DROP TRIGGER not_this_one")
    hand.connection.close()
    assert app.recover().tasks_put_back == 1


def test_a_failing_disk_ends_the_pass_and_no_task_is_blamed_for_it(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(app, clock, "a", "b")
    tries = []

    def full(*given: Any, **options: Any) -> Any:
        tries.append(1)
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(orphan_batches, "move_alike", full)
        with pytest.raises(DatabaseError, match="disk is full"):
            app.heal()
    assert len(tries) == 1
    assert app.heal().entries_reclaimed == 2
