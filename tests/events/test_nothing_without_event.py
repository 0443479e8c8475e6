"""Wherever a process is killed, the stream and the store tell the same story."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Event, Outlast
from outlast_lab.experiments.kill.cases import Room
from outlast_lab.record.scenarios import LIVES
from tests.support.foreign import foreign_rows
from tests.support.kill_room import a_room

pytestmark = pytest.mark.slow

POINTS = [
    (life, probe)
    for life in ("enqueue", "claim", "settle", "heal", "keep", "in groups", "subscribe")
    for probe in sorted(LIVES[life].probes)
    if probe.partition(".")[2] not in ("begun", "counted", "done")
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with a_room(tmp_path_factory.mktemp("stream")) as made:
        yield made


def _replayed(events: list[Event]) -> dict[str | None, object]:
    """The status of every task, by the stream alone."""
    statuses: dict[str | None, object] = {}
    for event in events:
        if event.kind == "task.enqueued":
            assert event.task_id not in statuses, "it is created once, and before all else"
            statuses[event.task_id] = "pending"
        elif event.kind == "task.taken":
            statuses.pop(event.task_id, None)
        elif "to" in event.data:
            assert statuses[event.task_id] == event.data["from"]
            statuses[event.task_id] = event.data["to"]
    return statuses


def _paused(events: list[Event]) -> set[str | None]:
    last = {event.queue: event.kind for event in events if event.kind.startswith("queue.")}
    return {queue for queue, kind in last.items() if kind == "queue.paused"}


@pytest.mark.proves("OBS-06")
@pytest.mark.parametrize(("life", "probe"), POINTS, ids=[f"{one}-{two}" for one, two in POINTS])
def test_the_stream_leads_to_the_store_wherever_a_process_is_killed(
    room: Room, life: str, probe: str
) -> None:
    """No change without its event, no event without its change: before a commit and after it."""
    passings = room.rehearsed(life).passed.count(probe)
    assert passings, "a probe that is listed must be reached"
    for nth in sorted({1, passings}):
        with room.fresh(f"{life} {probe} {nth}") as database:
            death = room.stage.kill(life, database, probe, nth)
            assert death.signal == signal.SIGKILL
            assert_same_story(database)


def assert_same_story(database: Path) -> None:
    app = Outlast(database)
    try:
        events = app.events(limit=10_000)
    finally:
        app.close()
    rows = foreign_rows(database, "SELECT id, status FROM tasks")
    assert _replayed(events) == dict(rows)
    paused = foreign_rows(database, "SELECT name FROM queues")
    assert _paused(events) == {name for (name,) in paused}
