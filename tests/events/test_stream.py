"""Reading the stream: all that happens stands in it, in order, and reading changes nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Cursor, Instant, InvalidInput, Outlast, PermanentError, StoreNotFound
from outlast.testing import ManualClock
from tests.events.conftest import short
from tests.support.foreign import foreign_rows


def _live(app: Outlast, clock: ManualClock) -> None:
    """Every way a task can go, one after the other."""
    app.enqueue("mail", {"to": "a secret address"}, id="done")
    (lease,) = app.claim("w")
    clock.advance("1s")
    lease.complete({"said": "a secret answer"})
    app.enqueue("mail", id="again")
    (lease,) = app.claim("w")
    lease.fail("try again", delay=0)
    (lease,) = app.claim("w")
    lease.fail(PermanentError("never"))
    app.enqueue("mail", id="back")
    (lease,) = app.claim("w")
    lease.release()
    (lease,) = app.claim("w")
    lease.park("approval")
    app.unpark("back")
    app.park("back")
    app.cancel("back")
    app.enqueue("mail", id="gone")
    app.take(1)
    app.enqueue("mail", id="late")
    app.claim("w", lease="10s")
    clock.advance("20s")
    app.heal()
    app.pause("default")
    app.unpause("default")


LIFE = [
    ("recovery.started", None),
    ("recovery.completed", None),
    ("task.enqueued", "done"),
    ("task.claimed", "done"),
    ("task.completed", "done"),
    ("task.enqueued", "again"),
    ("task.claimed", "again"),
    ("task.retried", "again"),
    ("task.claimed", "again"),
    ("task.failed", "again"),
    ("task.enqueued", "back"),
    ("task.claimed", "back"),
    ("task.released", "back"),
    ("task.claimed", "back"),
    ("task.waiting", "back"),
    ("task.unparked", "back"),
    ("task.parked", "back"),
    ("task.cancelled", "back"),
    ("task.taken", "gone"),
    ("task.enqueued", "late"),
    ("task.claimed", "late"),
    ("task.expired", "late"),
    ("queue.paused", None),
    ("queue.resumed", None),
]


class Ticking(ManualClock):
    """Moves at each look, so that the order of creations among the rest is certain."""

    def now(self) -> Instant:
        self.advance("1ms")
        return super().now()


@pytest.mark.proves("OBS-01")
def test_everything_that_happens_stands_in_the_stream_in_order(database: Path) -> None:
    clock = Ticking()
    with Outlast(database, clock=clock) as app:
        _live(app, clock)
        assert [one for one in short(app.events()) if one[0] != "recovery.progress"] == LIFE


def test_any_page_goes_on_behind_the_last_ones_cursor(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app()
    _live(app, clock)
    whole = app.events()
    for limit in (1, 2, 3, 7, 100):
        pieces, place = [], str(Cursor())
        while found := app.events(place, limit):
            pieces += found
            place = str(found[-1].cursor)
        assert pieces == whole


def test_no_event_holds_a_payload_or_a_result(app: Outlast, clock: ManualClock) -> None:
    _live(app, clock)
    assert "secret" not in repr(app.events())


def test_kinds_families_and_tasks_are_chosen(app: Outlast, clock: ManualClock) -> None:
    _live(app, clock)
    assert short(app.events(kinds="task.failed")) == [("task.failed", "again")]
    both = app.events(kinds=["queue.*", "task.taken"])
    assert [event.kind for event in both] == ["task.taken", "queue.paused", "queue.resumed"]
    assert [event.kind for event in app.events(task="done")] == [
        "task.enqueued",
        "task.claimed",
        "task.completed",
    ]
    assert [event.kind for event in app.events(task="gone")] == ["task.taken"]


def test_an_event_says_who_and_why(app: Outlast, clock: ManualClock) -> None:
    _live(app, clock)
    (failed,) = app.events(kinds="task.failed")
    assert (failed.worker, failed.task_kind, failed.queue) == ("w", "mail", "default")
    assert (failed.data["from"], failed.data["to"]) == ("running", "failed")
    assert failed.data["reason"] == "permanent_error"
    assert "never" in failed.data["error"]
    assert failed.at.tzinfo is not None


def test_the_newest_are_the_last_of_all(app: Outlast, clock: ManualClock) -> None:
    _live(app, clock)
    whole = app.events()
    assert app.newest_events(3) == whole[-3:]
    assert app.newest_events(1000) == whole
    assert (
        app.newest_events(2, kinds="task.claimed")
        == [event for event in whole if event.kind == "task.claimed"][-2:]
    )


def test_looking_at_the_stream_makes_no_store_and_changes_none(
    database: Path, make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    with pytest.raises(StoreNotFound):
        make_app().events()
    assert not database.exists()
    app = make_app()
    _live(app, clock)
    app.close()
    before = foreign_rows(database, "SELECT count(*), max(pos) FROM events")
    looking = make_app()
    looking.events()
    looking.subscribers()
    looking.newest_events()
    looking.close()
    assert foreign_rows(database, "SELECT count(*), max(pos) FROM events") == before


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.events("nowhere"),
        lambda app: app.events(limit=0),
        lambda app: app.events(kinds=[]),
        lambda app: app.events(kinds="\x1b[31m"),
        lambda app: app.events(kinds="task.fialed"),
        lambda app: app.newest_events(kinds=["task.failed", "nonsense.*"]),
        lambda app: app.follow(kinds="*"),
        lambda app: app.subscribe(print, kinds="task"),
        lambda app: app.events("999.0"),
        lambda app: app.follow("0.999"),
        lambda app: app.subscribe(print, "audit", after="999.999"),
        lambda app: app.events(task=7),
        lambda app: app.follow("nowhere"),
        lambda app: app.subscribe("no function"),
        lambda app: app.subscribe(print, ""),
        lambda app: app.subscribe(print, on_error="shrug"),
        lambda app: app.subscribe(print, tries=0),
        lambda app: app.unsubscribe(""),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    app: Outlast, call: Callable[[Outlast], object]
) -> None:
    app.open()
    with pytest.raises(InvalidInput):
        call(app)


def test_a_kind_that_is_not_there_is_refused_with_the_one_that_was_meant(app: Outlast) -> None:
    with pytest.raises(InvalidInput, match=r"did you mean task\.failed\?"):
        app.subscribe(print, kinds="task.fialed")
    with pytest.raises(InvalidInput, match=r"lock\.\*, queue\.\*, recovery\.\*"):
        app.subscribe(print, kinds="nonsense")


def test_followers_see_what_is_there_and_what_comes(app: Outlast) -> None:
    app.enqueue("work", id="before")
    from_now = app.follow(kinds="task.*")
    from_the_start = app.follow("0.0", kinds="task.*")
    assert next(from_the_start).task_id == "before"
    app.enqueue("work", id="after")
    assert next(from_now).task_id == "after"
    assert next(from_the_start).task_id == "after"
    from_now.close()  # type: ignore[attr-defined]
    from_the_start.close()  # type: ignore[attr-defined]


@pytest.mark.proves("OBS-05")
def test_the_tables_can_be_polled_by_a_foreign_tool(
    database: Path, app: Outlast, clock: ManualClock
) -> None:
    """Positions of moves and events are one sequence without doubles, and the stream follows it."""
    _live(app, clock)
    rows = foreign_rows(
        database,
        "SELECT pos FROM transitions UNION ALL SELECT pos FROM events ORDER BY 1",
    )
    polled = [pos for (pos,) in rows]
    assert len(set(polled)) == len(polled)
    placed = [event.pos for event in app.events() if event.kind != "task.enqueued"]
    assert placed == polled
    created = [event.task_id for event in app.events(kinds="task.enqueued")]
    assert created == [
        one for (one,) in foreign_rows(database, "SELECT id FROM tasks ORDER BY seq")
    ]
