import math
from typing import Any

import pytest

from outlast import InvalidInput, LeaseLost, Outlast
from outlast.domain.task import CHECKPOINT_TYPES
from outlast.testing import ManualClock


@pytest.mark.proves("CKP-02")
@pytest.mark.parametrize("type", CHECKPOINT_TYPES)
def test_a_running_task_may_write_each_of_the_eight_types(app: Outlast, type: str) -> None:
    app.enqueue("work", id="t1", group="g")
    (lease,) = app.claim("w")
    written = lease.checkpoint(type, {"n": 1}, {"took_ms": 7})
    assert app.checkpoints("t1") == [written]
    assert (written.type, written.sequence_number, written.group) == (type, 1, "g")
    assert (written.data, written.metadata) == ({"n": 1}, {"took_ms": 7})


def test_any_other_type_and_any_bad_snapshot_are_refused(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("w")
    wrong: list[tuple[Any, Any, Any]] = [
        ("milestone", 1, None),
        (None, 1, None),
        ("iteration_end", object(), None),
        ("iteration_end", math.nan, None),
        ("iteration_end", "x" * (1 << 20), None),
        ("iteration_end", 1, object()),
    ]
    for type_, data, metadata in wrong:
        with pytest.raises(InvalidInput):
            lease.checkpoint(type_, data, metadata)
    assert app.checkpoints("t1") == []


@pytest.mark.proves("CKP-09", "CKP-10", "CKP-12", "CKP-13")
def test_progress_can_be_read_back_newest_by_type_and_whole(app: Outlast) -> None:
    app.enqueue("work", id="t1")
    assert app.open().latest_checkpoint("t1") is None
    (lease,) = app.claim("w")
    for n in range(1, 4):
        lease.checkpoint("iteration_start", n)
        lease.checkpoint("iteration_end", n)
    lease.checkpoint("iteration_start", 4)
    newest, ended = app.latest_checkpoint("t1"), app.latest_checkpoint("t1", "iteration_end")
    assert newest is not None
    assert ended is not None
    assert (newest.type, newest.data, newest.sequence_number) == ("iteration_start", 4, 7)
    assert (ended.type, ended.data) == ("iteration_end", 3)
    assert [one.sequence_number for one in app.checkpoints("t1")] == list(range(1, 8))
    assert [one.data for one in app.checkpoints("t1", "iteration_end")] == [1, 2, 3]
    assert [one.data for one in app.checkpoints("t1", limit=2)] == [3, 4]
    assert app.checkpoint_counts("t1") == {"iteration_start": 4, "iteration_end": 3}
    assert app.latest_checkpoint("t1", "error_boundary") is None


@pytest.mark.proves("CKP-06")
def test_the_next_attempt_goes_on_counting_where_the_last_one_stopped(
    app: Outlast, clock: ManualClock
) -> None:
    app.enqueue("work", id="t1")
    for attempt in (1, 2, 3):
        (lease,) = app.claim("w", lease="1s")
        lease.checkpoint("iteration_end", attempt)
        clock.advance("1s")
    numbers = [(one.sequence_number, one.attempt, one.type) for one in app.checkpoints("t1")]
    assert numbers == [
        (1, 1, "iteration_end"),
        (2, 1, "error_boundary"),
        (3, 2, "iteration_end"),
        (4, 2, "error_boundary"),
        (5, 3, "iteration_end"),
    ]


@pytest.mark.proves("CKP-08")
def test_a_worker_that_lost_its_task_writes_no_checkpoint(app: Outlast, clock: ManualClock) -> None:
    app.enqueue("work", id="t1")
    (zombie,) = app.claim("w", lease="1s")
    clock.advance("1s")
    app.claim("w")
    with pytest.raises(LeaseLost):
        zombie.checkpoint("iteration_end", 1)
    (boundary,) = app.checkpoints("t1")
    assert (boundary.type, boundary.data["cause"]) == ("error_boundary", "lease_expired")


def test_the_newest_of_a_type_can_be_asked_across_tasks(app: Outlast) -> None:
    app.enqueue_many("work", range(3), id=["a", "b", "c"])
    for lease in app.claim("w", limit=3):
        lease.checkpoint("error_boundary", lease.task_id)
        lease.checkpoint("iteration_end", 1)
    assert [one.data for one in app.checkpoints(None, "error_boundary")] == ["c", "b", "a"]
    with pytest.raises(InvalidInput, match="a task id, a type, or both"):
        app.checkpoints(None)
    with pytest.raises(InvalidInput, match="type is one of"):
        app.checkpoints("a", "milestone")
