from collections.abc import Iterator
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, PayloadRejected

NOTHING = {"pending": 0, "running": 0, "completed": 0, "failed": 0, "cancelled": 0}


def test_many_tasks_share_the_options_and_keep_their_order(app: Outlast) -> None:
    ids = app.enqueue_many(
        "work", ({"n": n} for n in range(300)), queue="bulk", group="g", priority=2, max_retries=1
    )
    assert len(set(ids)) == 300
    leases = app.claim("w", limit=300, queue="bulk")
    assert [lease.task_id for lease in leases] == ids
    assert [lease.payload["n"] for lease in leases] == list(range(300))
    task = app.get(ids[0])
    assert (task.group, task.priority, task.max_retries) == ("g", 2, 1)


def test_ids_and_keys_are_given_one_for_each_payload(app: Outlast) -> None:
    keys = ["k1", "k2"]
    assert app.enqueue_many("work", [1, 2], id=["a", "b"], idempotency_key=keys) == ["a", "b"]
    assert app.enqueue_many("work", [1, 2, 3], idempotency_key=[*keys, "k3"])[:2] == ["a", "b"]
    assert app.counts()["pending"] == 3


@pytest.mark.parametrize(
    "options",
    [
        {"id": ["a"]},
        {"id": ["a", "b", "c"]},
        {"idempotency_key": ["a"]},
        {"id": "ab"},
        {"idempotency_key": "ab"},
        {"id": ["a", ""]},
        {"id": ["a", "a"]},
        {"priority": "x"},
        {"delay": -1},
        {"chunked": True, "also": [("INSERT INTO t VALUES (1)", ())]},
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    app: Outlast, options: dict[str, Any]
) -> None:
    app.open()
    with pytest.raises(InvalidInput):
        app.enqueue_many("work", [1, 2], **options)
    assert app.counts() == NOTHING


def test_one_bad_payload_refuses_them_all(app: Outlast) -> None:
    app.open()
    with pytest.raises(PayloadRejected):
        app.enqueue_many("work", [*range(500), object()])
    assert app.counts() == NOTHING


def test_an_error_of_the_callers_generator_stores_nothing(app: Outlast) -> None:
    app.open()

    def payloads() -> Iterator[int]:
        yield from range(10)
        raise OSError("the file ended")

    with pytest.raises(OSError, match="the file ended"):
        app.enqueue_many("work", payloads())
    assert app.counts() == NOTHING


def test_no_payloads_are_no_tasks(app: Outlast) -> None:
    assert app.enqueue_many("work", []) == []


def test_more_than_a_hundred_thousand_are_refused_in_one_and_accepted_in_chunks(
    app: Outlast,
) -> None:
    app.open()
    with pytest.raises(InvalidInput, match="pass chunked=True"):
        app.enqueue_many("work", range(100_001))
    assert app.counts() == NOTHING
    ids = app.enqueue_many("work", range(100_001), chunked=True)
    assert app.counts()["pending"] == len(ids) == 100_001
    first, last = app.get(ids[0]), app.get(ids[-1])
    assert (first.payload, last.payload) == (0, 100_000)


def test_a_hundred_thousand_fit_one_call(app: Outlast) -> None:
    assert len(app.enqueue_many("work", range(100_000))) == 100_000
    assert [lease.payload for lease in app.claim("w", limit=2)] == [0, 1]


def test_an_error_of_anybodys_between_chunks_says_what_is_stored(app: Outlast) -> None:
    """Guards: a generator that failed left nobody knowing where to go on."""

    def lines() -> Iterator[int]:
        yield from range(10_005)
        raise OSError("the file ended early")

    with pytest.raises(OSError, match="ended early") as caught:
        app.enqueue_many("work", lines(), chunked=True)
    assert caught.value.__notes__ == ["at least the first 10000 tasks are stored"]
    assert app.counts()["pending"] == 10_000
    with pytest.raises(OSError, match="ended early") as caught:
        app.enqueue_many("work", lines())
    assert not hasattr(caught.value, "__notes__")
    assert app.counts()["pending"] == 10_000
