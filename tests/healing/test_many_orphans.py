"""Any number of orphans: batch by batch, without recursion, in memory that does not grow."""

import sys
import tracemalloc
from collections.abc import Callable

import pytest

from outlast import Batch, Outlast
from outlast.testing import ManualClock
from tests.recovery.stage import FROZEN, by_hand
from tests.store.hand import store_of

MANY = 50_000
CLAIMED_AT_ONCE = 10_000


def left_behind(app: Outlast, clock: ManualClock, count: int) -> None:
    app.enqueue_many("work", [None] * count)
    while app.claim("w", limit=CLAIMED_AT_ONCE, lease="10s"):
        pass
    app._handle.serve().held.clear()
    assert app.counts()["pending"] == 0
    clock.advance("10s")


@pytest.mark.slow
@pytest.mark.proves("HEAL-25")
def test_fifty_thousand_orphans_go_back_in_bounded_batches_and_memory(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_batch=500, synchronous="normal")
    left_behind(app, clock, MANY)
    sizes: list[int] = []
    done = 0

    def note(batch: Batch) -> None:
        nonlocal done
        sizes.append(batch.put_back - done)
        done = batch.put_back

    tracemalloc.start()
    try:
        assert app.recover(on_batch=note).tasks_put_back == MANY
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [500] * 100
    assert app.counts()["pending"] == MANY
    assert peak_bytes < 8_000_000


@pytest.mark.proves("HEAL-25")
def test_more_batches_than_the_stack_is_deep_are_no_matter(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_batch=1, synchronous="normal")
    count = sys.getrecursionlimit() + 200
    left_behind(app, clock, count)
    assert app.heal().entries_reclaimed == count


@pytest.mark.proves("REC-21")
def test_one_that_cannot_be_moved_does_not_make_all_others_go_one_by_one(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heal_batch=500, synchronous="normal")
    app.enqueue("work", id="stubborn")
    left_behind(app, clock, 4999)
    batches: list[Batch] = []
    by_hand(app.path, FROZEN)
    report = app.recover(on_batch=batches.append)
    assert report.tasks_put_back == 4999
    assert [one.task_id for one in report.unrecovered] == ["stubborn"]
    assert len(batches) < 40


def test_one_that_cannot_be_moved_does_not_keep_claims_busy(
    app: Outlast, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.enqueue("work", id="stubborn")
    app.claim("w", lease="1s")
    by_hand(app.path, FROZEN)
    clock.advance("5s")

    def claims_ten_times() -> int:
        caplog.clear()
        for _ in range(10):
            assert app.claim("w") == []
        return caplog.text.count("cannot be taken back")

    assert [claims_ten_times(), claims_ten_times()] == [1, 0]
    changes = store_of(app).changes()
    claims_ten_times()
    assert store_of(app).changes() == changes
    clock.advance("1s")
    assert claims_ten_times() == 1
