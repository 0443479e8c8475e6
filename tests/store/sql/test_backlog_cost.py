"""Questions about what is unfinished cost what is unfinished, however much is finished."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from outlast import Backlog, Outlast
from outlast.store.sqlite.statements import sql
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.store.sql.test_claim_cost import CROWDS, crowd_in, steps_of
from tests.store.sql.test_plans import plan
from tests.store.trace import Trace

FINISHED = 100_000
# Each holds tasks of one condition only, so that a walk along all of it meets no others.
PARTIAL = {
    "idx_work_items_status_priority",
    "idx_tasks_due",
    "idx_tasks_parked",
    "idx_work_items_lease_expiry",
}


@pytest.mark.proves("QUE-23")
@pytest.mark.parametrize(
    "name",
    [
        "unfinished_all",
        "unfinished_of_queue",
        "unfinished_groups",
        "counts_all",
        "counts_of_queue",
        "seqs_pending",
        "seqs_pending_of_queue",
        "seqs_running",
        "lease_figures",
    ],
)
def test_what_is_unfinished_is_told_by_partial_indexes_and_never_by_the_table(
    blank: Hand, name: str
) -> None:
    lines = [line for line in plan(blank.connection, sql(name)) if " tasks " in f"{line} "]
    assert lines
    for line in lines:
        index = line.partition(" INDEX ")[2].split(" ")[0]
        assert line.startswith("SEARCH") or index in PARTIAL, line


def _questions(queue: str | None) -> dict[str, Callable[[Outlast], Any]]:
    return {
        "backlog": lambda app: app.backlog(queue),
        "pending": lambda app: [task.id for task in app.tasks("pending", queue)],
        "running": lambda app: [task.id for task in app.tasks("running", queue)],
        "cancelled": lambda app: [task.id for task in app.tasks("cancelled", queue)],
    }


def _asked(
    path: pathlib.Path, clock: ManualClock, trace: Trace, queue: str | None, finished: int
) -> dict[str, tuple[Any, int]]:
    """Each question's answer and its steps, with so many finished tasks among the others."""
    answers = {}
    with Outlast(path, clock=clock) as app:
        app.open()
        app.enqueue_many("k", range(3), id=["cancelled", "running", "ready"], group="mine")
        crowd_in(path, CROWDS["finished"], finished)
        app.enqueue("k", id="delayed", group="mine", delay="1h")
        app.enqueue("k", id="held", group="mine")
        app.park("held")
        app.cancel("cancelled")
        app.claim("w")
        for name, ask in _questions(queue).items():
            with trace.listening() as ran:
                answer = ask(app)
            answers[name] = answer, steps_of(ran)
    return answers


@pytest.mark.slow
@pytest.mark.proves("QUE-23")
@pytest.mark.parametrize("queue", [None, "default"])
def test_the_answers_take_as_many_steps_with_a_hundred_thousand_finished_tasks_as_with_one(
    tmp_path: pathlib.Path, clock: ManualClock, trace: Trace, queue: str | None
) -> None:
    alone = _asked(tmp_path / "alone.db", clock, trace, queue, 1)
    crowded = _asked(tmp_path / "crowded.db", clock, trace, queue, FINISHED)
    assert crowded == alone
    assert {name: answer for name, (answer, _) in crowded.items()} == {
        "backlog": Backlog(4, ("mine",)),
        "pending": ["held", "delayed", "ready"],
        "running": ["running"],
        "cancelled": ["cancelled"],
    }
