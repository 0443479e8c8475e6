"""Where payloads and results lie, and what happens when a byte of them flips."""

import logging
from typing import Any

import pytest

from outlast import Outlast, Parked, PayloadDamaged
from outlast.store.ops.enqueue import INLINE_BYTES
from tests.store.hand import Hand

# Changes that leave the row legal and the text readable, as a flipped bit mostly does.
DAMAGE = {
    "a flipped letter": "UPDATE tasks SET payload = replace(payload, 'y', 'x') WHERE id = 'bad'",
    "a lost text": "UPDATE tasks SET payload = NULL WHERE id = 'bad'",
    "a text from nowhere": "UPDATE tasks SET payload = '1' WHERE id = 'bad'",
    "another kind": "UPDATE tasks SET kind = 'l' WHERE id = 'bad'",
    "another sum": "UPDATE tasks SET payload_sum = payload_sum + 1 WHERE id = 'bad'",
}
LARGE_DAMAGE = {
    "a flipped letter": "UPDATE blobs SET data = replace(data, 'y', 'x')",
    "a lost text": "DELETE FROM blobs",
    "the wrong part": "UPDATE blobs SET part = 'result'",
}


def text_of(bytes_as_json: int) -> str:
    """A text that takes this many bytes as JSON, quotes included."""
    return "y" * (bytes_as_json - 2)


def row_bytes(hand: Hand, task_id: str) -> int:
    return sum(len(str(value)) for value in hand.task(task_id).values())


@pytest.mark.parametrize(("size", "inline"), [(INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_a_payload_above_two_kib_lives_beside_the_row(
    app: Outlast, hand: Hand, size: int, inline: bool
) -> None:
    app.enqueue("k", text_of(size), id="t")
    (lease,) = app.claim("w")
    assert lease.payload == app.get("t").payload == text_of(size)
    assert lease.complete(text_of(size))
    row = hand.task("t")
    assert (row["payload_bytes"], row["result_bytes"]) == (size, size)
    beside = hand.rows("SELECT part, data FROM blobs ORDER BY part")
    if inline:
        assert row["payload"] == row["result"] == f'"{text_of(size)}"'
        assert beside == []
    else:
        assert row["payload"] is row["result"] is None
        assert beside == [(part, f'"{text_of(size)}"') for part in ("payload", "result")]
        assert row_bytes(hand, "t") < 400
    assert app.get("t").result == text_of(size)
    assert INLINE_BYTES == 2048


def test_what_counts_is_bytes_and_not_characters(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", "€" * 1000, id="t")
    row = hand.task("t")
    assert (row["payload_bytes"], row["payload"]) == (3002, None)
    (lease,) = app.claim("w")
    assert lease.payload == "€" * 1000


def test_the_row_of_a_large_payload_stays_small_through_its_life(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", text_of(1 << 20), id="t", max_retries=1)
    for ending in ("retry", "give up"):
        (lease,) = app.claim("w")
        assert len(lease.payload) == (1 << 20) - 2
        assert row_bytes(hand, "t") < 400
        lease.fail(ending, delay=0)
    assert app.retry("t").payload == text_of(1 << 20)
    assert hand.value("SELECT count(*) FROM blobs") == 2


def assert_set_aside(app: Outlast, caplog: pytest.LogCaptureFixture) -> None:
    """The damaged task is parked and named; the next one is handed out by the same claim."""
    with caplog.at_level(logging.ERROR):
        (lease,) = app.claim("w")
    assert lease.task_id == "good"
    assert lease.complete()
    bad = app.get("bad")
    assert (bad.status, bad.parked, bad.attempt) == ("pending", Parked.PARTIAL, 0)
    assert "task bad was damaged on disk" in caplog.text
    assert "yyyy" not in caplog.text
    with pytest.raises(PayloadDamaged, match="payload of task bad was damaged on disk"):
        _ = bad.payload
    assert "damaged" in app.why("bad")
    assert app.claim("w") == []


@pytest.mark.parametrize("how", DAMAGE)
def test_a_claim_sets_a_damaged_task_aside_and_goes_on(
    app: Outlast, hand: Hand, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    app.enqueue("k", "yyyyyyyy", id="bad", priority=5)
    app.enqueue("k", id="good")
    assert hand.run(DAMAGE[how]) == 1
    assert_set_aside(app, caplog)


@pytest.mark.parametrize("how", LARGE_DAMAGE)
def test_a_claim_sets_a_task_with_a_damaged_large_payload_aside(
    app: Outlast, hand: Hand, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    app.enqueue("k", text_of(5000), id="bad", priority=5)
    app.enqueue("k", id="good")
    assert hand.run(LARGE_DAMAGE[how]) == 1
    assert_set_aside(app, caplog)


def test_many_damaged_tasks_do_not_hide_the_sound_ones(app: Outlast, hand: Hand) -> None:
    app.enqueue_many("k", ["yyyy"] * 25, priority=5)
    app.enqueue_many("k", range(3))
    hand.run("UPDATE tasks SET payload = 'x' WHERE priority = 5")
    assert [lease.payload for lease in app.claim("w", limit=5)] == [0, 1, 2]
    assert hand.value("SELECT count(*) FROM tasks WHERE parked = 'partial'") == 25


def test_a_take_leaves_damaged_tasks_in_the_store(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", "yyyy", id="bad")
    app.enqueue("k", id="good")
    hand.run(DAMAGE["a flipped letter"])
    assert [task.id for task in app.take(limit=5)] == ["good"]
    assert app.get("bad").parked is Parked.PARTIAL


def test_a_damaged_task_that_is_unparked_is_set_aside_again(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", "yyyy", id="bad")
    hand.run(DAMAGE["a flipped letter"])
    for _ in range(2):
        assert app.claim("w") == []
        assert app.get("bad").parked is Parked.PARTIAL
        assert app.unpark("bad")
    hand.run("UPDATE tasks SET payload = '\"yyyy\"' WHERE id = 'bad'")
    (lease,) = app.claim("w")
    assert lease.payload == "yyyy"


@pytest.mark.parametrize(
    ("result", "damage"),
    [
        ("yyyy", "UPDATE tasks SET result = replace(result, 'y', 'x')"),
        ("yyyy", "UPDATE tasks SET result = NULL"),
        (None, "UPDATE tasks SET result = '1'"),
        (text_of(5000), "UPDATE blobs SET data = replace(data, 'y', 'x')"),
        (text_of(5000), "DELETE FROM blobs"),
    ],
)
def test_a_damaged_result_is_never_handed_out(
    app: Outlast, hand: Hand, result: Any, damage: str
) -> None:
    app.enqueue("k", {"sound": True}, id="t")
    (lease,) = app.claim("w")
    lease.complete(result)
    assert app.get("t").result == result
    assert hand.run(damage) == 1
    found = app.get("t")
    with pytest.raises(PayloadDamaged, match="result of task t was damaged on disk"):
        _ = found.result
    assert found.payload == {"sound": True}
    assert found.status == "completed"


def test_a_damaged_payload_cannot_be_retried(app: Outlast, hand: Hand) -> None:
    app.enqueue("k", "yyyy", id="bad")
    app.cancel("bad")
    hand.run(DAMAGE["a flipped letter"])
    with pytest.raises(PayloadDamaged):
        app.retry("bad")
    assert app.counts()["pending"] == 0
