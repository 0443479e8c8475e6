"""Orphans that one decision fits are decided together, and no others are."""

from outlast.domain.lifecycle import Cause, Outcome
from outlast.store.ops.recovery.recovery_pass import alike
from outlast.store.ops.settle import TaskRow

CRASH, NEVER_STARTED = Cause(Outcome.CRASH, "test"), Cause(Outcome.NEVER_STARTED, "test")


def orphan(seq: int, **differs: object) -> TaskRow:
    row = TaskRow(seq, f"t{seq}", "running", 1, 0, 0, 0, 3, 3, 7, 1, "w", 0, 0, "work", 1000)
    return row._replace(**differs)  # type: ignore[arg-type]


def test_those_that_differ_in_nothing_that_counts_are_asked_about_once() -> None:
    asked: list[int] = []

    def cause(task: TaskRow) -> Cause:
        asked.append(task.seq)
        return CRASH

    found = [orphan(1), orphan(2, token=8, heartbeat_at=None), orphan(3, keyed=1)]
    (together,) = alike(found, cause)
    assert (together.rows, together.cause, asked) == (found, CRASH, [1])


def test_neighbours_or_not_makes_no_difference() -> None:
    found = [orphan(1), orphan(2, kind="other"), orphan(3), orphan(4, kind="other")]
    groups = alike(found, lambda task: CRASH)
    assert [[row.seq for row in one.rows] for one in groups] == [[1, 3], [2, 4]]


def test_every_field_that_decides_sets_apart() -> None:
    differing: list[dict[str, object]] = [
        {"status": "pending"}, {"attempt": 2}, {"retry_count": 1}, {"recovery_count": 1},
        {"max_retries": 4}, {"max_recoveries": 4}, {"worker": "v"}, {"unstarted": 1},
        {"kind": "other"},
    ]  # fmt: skip
    found = [orphan(0), *(orphan(seq, **one) for seq, one in enumerate(differing, 1))]
    groups = alike(found, lambda task: CRASH)
    assert [[row.seq for row in one.rows] for one in groups] == [[seq] for seq in range(10)]


def test_of_those_not_started_each_is_asked_about_for_the_lock_file_may_know_better() -> None:
    found = [orphan(seq, unstarted=1) for seq in range(4)]
    groups = alike(found, lambda task: CRASH if task.seq == 2 else NEVER_STARTED)
    assert {one.cause: [row.seq for row in one.rows] for one in groups} == {
        NEVER_STARTED: [0, 1, 3],
        CRASH: [2],
    }
