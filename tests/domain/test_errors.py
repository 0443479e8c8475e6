"""Errors travel: between threads as copies, between processes as pickles."""

import copy
import pickle
from datetime import UTC, datetime

import pytest

from outlast import errors
from outlast.errors import OutlastError

MADE = (
    errors.InvalidInput("no"),
    errors.TaskNotFound("t1"),
    errors.IdempotencyConflict("key", "t1"),
    errors.LeaseLost(["t1", "t2"], ": gone"),
    errors.LeaseInherited("t1"),
    errors.TaskFailed("t1", "boom"),
    errors.LockHeld("x", "worker w", datetime(2026, 1, 1, tzinfo=UTC)),
    errors.LockLost("x", ": gone"),
    errors.QueueStalled(12, 3.0, "stopped"),
    errors.DatabaseError("enqueue", ValueError("x"), is_constraint=True),
    errors.OutcomeUnknown(["t1"], "the disk is full"),
)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_when_copied_and_when_pickled(error: OutlastError) -> None:
    error.add_note("by the way")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__
