"""Subscribers in histories made by hand: each way to lose, mix or double events is recognised."""

from itertools import count
from typing import Any

import pytest

from outlast_lab.judge.event_rules import stream_faults
from outlast_lab.judge.foreign_reader import Stored, StoredEvent
from outlast_lab.judge.subscriber_rules import TOLD, Telling
from outlast_lab.record.history import ANSWERED, ASKS, Line, history_of

_numbers = count()


def told(
    pos: int,
    at: float,
    kind: str = "task.claimed",
    *,
    session: str = "s",
    worker: str = "w",
    task: str = "t",
    is_answered: bool = True,
) -> list[Line]:
    """An event that is told at a moment, and heard a tenth of a second later."""
    number, later = str(next(_numbers)), at + 0.1
    arguments = {"name": "audit", "session": session, "pos": pos, "kind": kind, "task": task}
    lines: list[Line] = [[ASKS, number, worker, TOLD, arguments, at, 0]]
    return [*lines, [ANSWERED, number, worker, "done", None, later, 0]] if is_answered else lines


def found(stored: Stored, *lines: list[Line]) -> list[str]:
    history = history_of(line for pair in lines for line in pair)
    return [one.kind for one in Telling(history, stored).all()]


def at(pos: int) -> Stored:
    return Stored(positions=[1, 2, 3], cursors=[("audit", pos, 0)])


def test_a_cursor_behind_what_was_told_is_in_order() -> None:
    assert found(at(2), told(1, 1), told(2, 2), told(3, 3, is_answered=False)) == []


def test_a_cursor_ahead_of_what_was_told_has_lost_events() -> None:
    assert found(at(2), told(1, 1)) == ["untold"]
    assert found(at(3), told(1, 1), told(3, 3)) == ["untold"]


def test_what_was_told_to_nobodys_end_is_not_told() -> None:
    assert found(at(2), told(1, 1), told(2, 2, is_answered=False)) == ["untold"]


def test_positions_that_fall_are_out_of_order_unless_another_begins() -> None:
    assert found(at(0), told(2, 1), told(1, 2)) == ["order"]
    assert found(at(0), told(2, 1), told(1, 2, session="later")) == []


def test_a_creation_after_its_tasks_move_is_out_of_order() -> None:
    assert found(at(0), told(1, 1), told(1, 2, "task.enqueued")) == ["order"]
    assert found(at(0), told(0, 1, "task.enqueued"), told(1, 2)) == []


def test_two_who_tell_one_name_at_once_are_seen() -> None:
    both = told(1, 1.0), told(1, 1.05, session="other", worker="v")
    assert found(at(0), *both) == ["told at once"]


def _stream(**parts: Any) -> Stored:
    whole = {"positions": list(range(1, 10))}
    return Stored(counters={"transitions": 9, "tasks": 0}, **(whole | parts))


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        (_stream(positions=[*range(1, 10), 2]), "two things"),
        (_stream(positions=[*range(1, 11)]), "positions again"),
        (_stream(positions=[*range(1, 9)]), "has left positions [9] empty"),
        (_stream(paused={"q"}), "differs about queue 'q', which is paused"),
        (
            _stream(events=[StoredEvent(1, "queue.paused", None, None, '{"queue": "q"}')]),
            "which is not paused",
        ),
        (Stored(counters={"tasks": 1}), "what became of rows"),
    ],
)
def test_what_the_events_leave_out_or_make_up_is_found(stored: Stored, fault: str) -> None:
    (said,) = stream_faults(stored)
    assert fault in said


def test_a_task_that_was_taken_is_accounted_for() -> None:
    taken = StoredEvent(3, "task.taken", None, None, "{}")
    counters = {"tasks": 1, "transitions": 3}
    stored = Stored(counters=counters, events=[taken], event_tasks={3: 1})
    assert list(stream_faults(stored)) == []
