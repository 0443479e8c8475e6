"""What an enqueue checks before it stores anything, however many are stored at once."""

import math
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, PayloadRejected
from outlast.tasks.enqueue_input import ENCODED_AT_ONCE
from outlast.tasks.ids import new_ids


@pytest.mark.parametrize("option", ["priority", "max_retries"])
@pytest.mark.parametrize("lookalike", [True, 1.0])
def test_what_only_equals_a_number_that_was_fine_is_refused(
    app: Outlast, option: str, lookalike: Any
) -> None:
    """Checked options are remembered, and True == 1 == 1.0."""
    fine: dict[str, Any] = {option: 1}
    app.enqueue("work", **fine)
    with pytest.raises(InvalidInput, match="whole number"):
        app.enqueue("work", **{option: lookalike})


@pytest.mark.parametrize("option", ["kind", "queue", "priority", "max_retries"])
def test_what_cannot_be_remembered_is_refused_in_the_usual_words(app: Outlast, option: str) -> None:
    options: dict[str, Any] = {"kind": "work"} | {option: ["a list"]}
    with pytest.raises(InvalidInput, match="must be a"):
        app.enqueue(**options)


def test_options_of_one_call_are_not_anothers(app: Outlast) -> None:
    plain = app.enqueue("work")
    grouped = app.enqueue("work", group="g", delay=60, priority=3, queue="q", max_retries=0)
    again = app.enqueue("work")
    assert (grouped.group, grouped.priority, grouped.queue, grouped.max_retries) == ("g", 3, "q", 0)
    assert grouped.not_before is not None
    for task in (plain, again):
        assert (task.group, task.not_before, task.priority, task.queue) == (
            None,
            None,
            0,
            "default",
        )
        assert app.get(task.id) == task


@pytest.mark.parametrize(
    "place", [0, ENCODED_AT_ONCE - 1, ENCODED_AT_ONCE, 3 * ENCODED_AT_ONCE + 5]
)
def test_a_refused_payload_is_named_by_its_place(app: Outlast, place: int) -> None:
    payloads: list[Any] = [{"n": n} for n in range(4 * ENCODED_AT_ONCE)]
    payloads[place] = {"n": math.nan}
    app.open()
    with pytest.raises(PayloadRejected, match=rf"payload {place} holds NaN"):
        app.enqueue_many("work", payloads)
    assert app.counts()["pending"] == 0


def test_payloads_of_every_sort_are_stored_as_single_ones_are(app: Outlast) -> None:
    payloads: list[Any] = [None, "null", "a\nb", (1, 2), {"a": None}, "ü" * 3000, 7, "[{" * 99]
    payloads *= 1 + ENCODED_AT_ONCE // len(payloads)
    ids = app.enqueue_many("work", payloads)
    for task_id, payload in zip(ids, payloads[:20], strict=False):
        alone = app.get(app.enqueue("work", payload).id)
        assert app.get(task_id).stored_payload.text == alone.stored_payload.text
        assert app.get(task_id).payload == alone.payload


def test_ids_made_together_differ_and_rise() -> None:
    ids = new_ids(2000)
    assert len(set(ids)) == 2000
    assert ids == sorted(ids)


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
@pytest.mark.parametrize("given", [iter("ab"), {"a", "b"}, {"a": 1, "b": 2}, "ab"])
def test_what_has_no_places_is_no_list_of_ids(app: Outlast, name: str, given: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{name} of enqueue_many takes a list"):
        app.enqueue_many("work", [1, 2], **{name: given})
