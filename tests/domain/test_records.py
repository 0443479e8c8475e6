from datetime import UTC, datetime
from itertools import product

import pytest

from outlast.domain import codec
from outlast.domain.lifecycle import FINAL, Status
from outlast.domain.task import Group, Stored, Task, roll_up, utc
from outlast.errors import PayloadDamaged


def _counts(**given: int) -> dict[str, int]:
    return {status.value: 0 for status in Status} | given


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (_counts(pending=3), "pending"),
        (_counts(pending=2, running=1), "running"),
        (_counts(pending=2, completed=1), "running"),
        (_counts(pending=2, failed=1), "running"),
        (_counts(pending=2, cancelled=1), "pending"),
        (_counts(running=1, failed=2), "running"),
        (_counts(completed=3), "completed"),
        (_counts(completed=2, cancelled=1), "cancelled"),
        (_counts(completed=2, cancelled=1, failed=1), "failed"),
        (_counts(cancelled=2), "cancelled"),
    ],
)
def test_a_group_is_unfinished_first_and_then_as_bad_as_its_worst_task(
    counts: dict[str, int], status: str
) -> None:
    assert roll_up(counts) == status


def test_a_group_is_done_exactly_when_all_its_tasks_are_final() -> None:
    for numbers in product((0, 1, 2), repeat=len(Status)):
        counts = dict(zip((status.value for status in Status), numbers, strict=True))
        group = Group("g", roll_up(counts), counts)
        assert group.done == (counts["pending"] + counts["running"] == 0)


NOTHING = Stored(None, None)


def _task(payload: Stored, result: Stored = NOTHING) -> Task:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return Task(
        "t1", "kind", "default", Status.COMPLETED, 0, None, None, None, 1, 0, 0, 0, 3, 3, 1,
        None, "w", None, None, at, at, at, None, at, at, None, None, None,
        payload, result,
    )  # fmt: skip


def test_a_payload_that_fails_its_checksum_is_refused_and_never_returned() -> None:
    whole = codec.payload_sum("t1", "kind", '{"a":1}')
    assert _task(Stored('{"a":1}', whole)).payload == {"a": 1}
    for text in ('{"a":3}', None):
        with pytest.raises(PayloadDamaged, match="payload of task t1 was damaged"):
            _ = _task(Stored(text, whole)).payload


def test_a_result_that_fails_its_checksum_is_refused_and_never_returned() -> None:
    payload = Stored(None, codec.payload_sum("t1", "kind", None))
    whole = codec.result_sum("t1", "[1]")
    assert _task(payload, Stored("[1]", whole)).result == [1]
    for text in ("[3]", None):
        with pytest.raises(PayloadDamaged, match="result of task t1 was damaged"):
            _ = _task(payload, Stored(text, whole)).result


def test_a_payload_is_decoded_afresh_so_that_nobody_changes_anothers() -> None:
    task = _task(Stored('{"a":1}', codec.payload_sum("t1", "kind", '{"a":1}')))
    task.payload["a"] = 2
    assert task.payload == {"a": 1}


def test_a_task_shows_neither_payload_nor_result_when_printed() -> None:
    task = _task(Stored('"s3cr3t"', 0), Stored('"s3cr3t"', 0))
    assert "s3cr3t" not in repr(task)
    assert task.is_final
    assert {Status.COMPLETED, Status.FAILED, Status.CANCELLED} == FINAL


def test_stored_milliseconds_are_aware_utc_times_to_the_millisecond() -> None:
    assert utc(1_800_000_000_123) == datetime(2027, 1, 15, 8, 0, 0, 123000, tzinfo=UTC)
    assert utc(None) is None
