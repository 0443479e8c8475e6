"""Tasks of one call for many are kept by columns, and are stored as single ones are."""

from typing import Any

import pytest

from outlast import InvalidInput, Outlast, Task
from outlast.settings import Settings
from outlast.store.new_tasks import AlikeTasks, NewTask
from outlast.tasks import enqueue_input
from outlast.tasks.enqueue_input import Options
from outlast.testing import ManualClock
from tests.store.hand import Hand, store_of

PAYLOADS: list[Any] = [None, "null", {"n": 1}, "ü" * 3000, "x" * 3000, [1, 2], 7, ""]
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a group": {"group": "g"},
    "a delay": {"delay": 60},
    "everything": {
        "group": "g", "delay": 60, "queue": "q", "priority": 7, "max_retries": 1,
    },
}  # fmt: skip


def alike(payloads: list[Any], clock: ManualClock, options: Options) -> list[AlikeTasks]:
    now = clock.now()
    template = enqueue_input.template_of("work", options, Settings(), now)
    chunks = enqueue_input.in_chunks(
        template, payloads, None, None, Settings(), created_ms=now.utc_ms, size=3
    )
    return [chunk for chunk in chunks if isinstance(chunk, AlikeTasks)]


def row(hand: Hand, task_id: str) -> dict[str, Any]:
    found = hand.task(task_id)
    own = {name: found.pop(name) for name in ("seq", "id", "payload_sum")}
    assert own["payload_sum"] is not None
    return found


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_each_is_stored_as_a_single_one_is(
    app: Outlast, hand: Hand, options: dict[str, Any]
) -> None:
    ids = app.enqueue_many("work", PAYLOADS, **options)
    for task_id, payload in zip(ids, PAYLOADS, strict=True):
        single: Task = app.enqueue("work", payload, **options)
        assert app.get(task_id).payload == payload
        assert row(hand, task_id) == row(hand, single.id)


def test_it_is_a_sequence_of_new_tasks(clock: ManualClock) -> None:
    chunks = alike(PAYLOADS, clock, Options(priority=3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 2]
    for chunk in chunks:
        tasks = list(chunk)
        assert [chunk[n] for n in range(len(chunk))] == tasks
        assert list(chunk[1:]) == tasks[1:]
        assert all(type(task) is NewTask and task.priority == 3 for task in tasks)
    first = chunks[0][0]
    assert first == enqueue_input.one(
        enqueue_input.template_of("work", Options(priority=3), Settings(), clock.now()),
        PAYLOADS[0], first.id, None, Settings(), created_ms=clock.now().utc_ms,
    )  # fmt: skip


def test_a_twin_among_many_is_named_and_nothing_is_stored(app: Outlast, clock: ManualClock) -> None:
    (chunk,) = alike([1, 2, 3], clock, Options())
    store_of(app).tasks.add([chunk[2]], clock.now())
    with pytest.raises(InvalidInput, match=f"'{chunk.ids[2]}' exists already"):
        store_of(app).tasks.add(chunk, clock.now())
    assert app.counts()["pending"] == 1


def test_no_payloads_are_no_tasks(app: Outlast) -> None:
    assert app.enqueue_many("work", []) == []
    assert app.enqueue_many("work", iter(()), chunked=True) == []


@pytest.mark.slow
def test_one_too_many_is_refused_before_anything_is_stored(app: Outlast) -> None:
    app.open()
    with pytest.raises(InvalidInput, match="more than 100000 tasks do not fit one transaction"):
        app.enqueue_many("work", range(100_001))
    assert app.counts()["pending"] == 0
    assert len(app.enqueue_many("work", range(100_001), chunked=True)) == 100_001
