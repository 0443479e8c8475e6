"""Any number of orphans: batch by batch, without recursion, in memory that does not grow."""

import sys
import tracemalloc
from collections.abc import Callable

import pytest

from outlast import Batch, Outlast
from outlast.testing import ManualClock

MANY = 50_000
CLAIMED_AT_ONCE = 10_000


def left_behind(app: Outlast, clock: ManualClock, count: int) -> None:
    app.enqueue_many("work", [None] * count)
    for _ in range(0, count, CLAIMED_AT_ONCE):
        app.claim("w", limit=CLAIMED_AT_ONCE, lease="10s")
    app._handle.serve().held.clear()
    assert app.counts()["running"] == count
    clock.advance("10s")


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
