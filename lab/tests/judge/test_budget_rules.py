"""How often a task may be put back after a crash, told from its row, its moves, its checkpoints."""

from typing import Any

import pytest

from outlast_lab.judge.foreign_reader import Move, StoredCheckpoint, StoredTask
from outlast_lab.judge.replay import objections_to_budget

PROGRESS = StoredCheckpoint("tool_executed", 1, 2, "{}", "")


def task(in_row: int, **fields: Any) -> StoredTask:
    """One that crashed twice, of three times that it may."""
    plain = StoredTask(
        "t", 1, "pending", "work", None, 2, 0, 2, in_row, 3, 3, 2, None, None, 0, None, 0, 0, 0,
        None, None, None,
    )  # fmt: skip
    return plain._replace(**fields)


def moves(*reasons: str) -> list[Move]:
    """Claims, each of which ended in this way."""
    made: list[Move] = []
    attempt = 0
    for token, reason in enumerate(reasons, 1):
        attempt += 1
        made.append(Move("pending", "running", "worker", "claimed", attempt, token, "a"))
        attempt -= reason.endswith("_reset")
        to = "failed" if reason == "max_retries_exceeded" else "pending"
        made.append(Move("running", to, "system/recovery", reason, attempt, token, "a"))
    return made


TWICE = moves("crash_retry", "lease_expired_retry")
REFUNDED = moves("crash_reset", "crash_reset")
GIVEN_UP = moves("crash_retry", "crash_retry", "max_retries_exceeded")


@pytest.mark.parametrize(
    ("one", "made", "checkpoints"),
    [
        (task(2), TWICE, []),
        (task(1), TWICE, [PROGRESS]),
        (task(2), TWICE, [PROGRESS._replace(attempt=1)]),
        (task(2), TWICE, [PROGRESS._replace(type="iteration_start")]),
        (task(2), TWICE, [PROGRESS._replace(type="error_boundary")]),
        (task(0), TWICE, [PROGRESS._replace(type="iteration_start", number=9)]),
        (task(1), REFUNDED, [PROGRESS._replace(attempt=1)]),
        (task(2), REFUNDED, [PROGRESS._replace(attempt=1)]),
        (task(2, max_recoveries=None), GIVEN_UP, []),
        (task(2, max_recoveries=2), GIVEN_UP, []),
        (task(2, max_recoveries=9, attempt=999), TWICE, []),
    ],
)
def test_crashes_are_counted_since_the_last_progress(
    one: StoredTask, made: list[Move], checkpoints: list[StoredCheckpoint]
) -> None:
    assert list(objections_to_budget(one, made, checkpoints)) == []


@pytest.mark.parametrize(
    ("one", "made", "checkpoints", "said"),
    [
        (task(1), TWICE, [], "has 1 crashes in a row, and they must be 2 to 2"),
        (task(2), TWICE, [PROGRESS], "has 2 crashes in a row, and they must be 1 to 1"),
        (task(0), REFUNDED, [PROGRESS._replace(attempt=1)], "they must be 1 to 2"),
        (task(2, max_recoveries=1), TWICE, [], "crashed 2 times in a row and was put back, of 1"),
        (task(2), GIVEN_UP, [], "was given up after 2 crashes in a row, of 3"),
        (task(2, recovery_count=101), TWICE, [], "has spent more than it may"),
        (task(2, retry_count=4), TWICE, [], "has spent more than it may"),
    ],
)
def test_a_budget_that_is_not_kept_is_told(
    one: StoredTask, made: list[Move], checkpoints: list[StoredCheckpoint], said: str
) -> None:
    (found,) = objections_to_budget(one, made, checkpoints)
    assert said in found
