"""Aids for tests of programs that use Outlast: time by hand, tasks at once, facts about tasks."""

from outlast.testing.asserting import (
    assert_completed,
    assert_enqueued,
    assert_failed,
    assert_no_pending,
)
from outlast.testing.clock import ManualClock
from outlast.testing.draining import Drained, drain, eager

__all__ = [
    "Drained",
    "ManualClock",
    "assert_completed",
    "assert_enqueued",
    "assert_failed",
    "assert_no_pending",
    "drain",
    "eager",
]
