"""The pure part of the stream: what a move is called, places as text, one order of two."""

import random

import pytest

from outlast import Cursor, InvalidInput
from outlast.domain.events import KINDS, Created, Placed, cursor_of, name_of_move, woven
from outlast.domain.lifecycle import RECOVERY, WORKER
from tests.docs.pages import DOCS, section, spans, table

NAMES = {
    ("pending", "running", "claimed", WORKER): "task.claimed",
    ("running", "completed", "completed", WORKER): "task.completed",
    ("running", "failed", "permanent_error", WORKER): "task.failed",
    ("pending", "failed", "failed_by_operator", "user"): "task.failed",
    ("running", "failed", "crash_policy_fail", RECOVERY): "task.failed",
    ("running", "cancelled", "cancelled", "user"): "task.cancelled",
    ("running", "pending", "retry", WORKER): "task.retried",
    ("running", "pending", "released", WORKER): "task.released",
    ("running", "pending", "waiting", WORKER): "task.waiting",
    ("running", "pending", "never_started", RECOVERY): "task.recovered",
    ("running", "pending", "crash_retry", RECOVERY): "task.recovered",
    ("running", "pending", "crash_reset", RECOVERY): "task.recovered",
    ("running", "pending", "lease_expired_retry", RECOVERY): "task.expired",
    ("running", "pending", "lease_expired_reset", RECOVERY): "task.expired",
    ("running", "pending", "taken_retry", "operator/ada"): "task.recovered",
    ("running", "pending", "taken_reset", "user"): "task.recovered",
    ("running", "pending", "a new reason", RECOVERY): "task.recovered",
    ("running", "pending", "a new reason", "user"): "task.released",
    ("failed", "pending", "reopened", "user"): "task.reopened",
}


@pytest.mark.parametrize(("move", "name"), NAMES.items())
def test_every_move_has_one_name(move: tuple[str, str, str, str], name: str) -> None:
    assert name_of_move(*move) == name


def test_the_page_lists_every_kind_there_is() -> None:
    rows = table(section(DOCS / "events.md", "What there is"))
    assert {kind for row in rows for kind in spans(row[0])} == KINDS


@pytest.mark.parametrize("cursor", [Cursor(), Cursor(120, 45), Cursor(120, 45, 7)])
def test_a_place_as_text_is_read_back(cursor: Cursor) -> None:
    assert cursor_of(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "12", "1.2.3.4", "-1.2", "1.x", "1.²", "9" * 30 + ".1", 7, None]
)
def test_what_is_no_place_is_refused_in_one_sentence(text: object) -> None:
    with pytest.raises(InvalidInput, match=r"such as 120\.45"):
        cursor_of(text)  # type: ignore[arg-type]


def _created(seq: int, at_ms: int) -> Created:
    return Created(seq, at_ms, f"t{seq}", "work", "default", {})


def test_a_creation_comes_before_its_tasks_first_move_whatever_the_clocks_say() -> None:
    """The creator's clock is an hour ahead of the claimer's."""
    events = woven(
        Cursor(), [_created(1, 3_600_000)], [Placed(1, 5, "task.claimed", 1, "t1")], limit=10
    )
    assert [event.kind for event in events] == ["task.enqueued", "task.claimed"]


def test_creations_stand_where_they_happened_among_other_tasks_moves() -> None:
    created = [_created(1, 10), _created(2, 30)]
    placed = [Placed(1, 20, "task.claimed", 1, "t1"), Placed(2, 40, "task.completed", 1, "t1")]
    events = woven(Cursor(), created, placed, limit=10)
    assert [(event.kind, event.task_id) for event in events] == [
        ("task.enqueued", "t1"),
        ("task.claimed", "t1"),
        ("task.enqueued", "t2"),
        ("task.completed", "t1"),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_pages_of_any_size_make_up_the_same_stream(seed: int) -> None:
    """Read on behind the last event's cursor, nothing is lost, doubled, or in another order."""
    chance = random.Random(seed)
    created = [_created(seq, chance.randrange(60)) for seq in range(1, 31)]
    placed = [
        Placed(pos, chance.randrange(60), "moved", chance.choice([None, chance.randint(1, 30)]))
        for pos in range(1, 41)
    ]
    whole = woven(Cursor(), created, placed, limit=1000)
    assert len(whole) == 70
    at, pieces = Cursor(), []
    while True:
        limit = chance.randint(1, 9)
        page = woven(
            at,
            [one for one in created if one.task_seq > at.task_seq][:limit],
            [one for one in placed if one.pos > at.pos][:limit],
            limit,
        )
        if not page:
            break
        assert len(page) <= limit
        pieces += page
        at = page[-1].cursor
    assert pieces == whole
