"""What a subscriber is told that stayed away for too long."""

from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Cursor, Outlast
from outlast.store.ops import cursors
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.transaction import Transaction
from outlast.testing import ManualClock
from outlast_lab.inside import store_of
from tests.events.conftest import DEADLINE_SECONDS, Listener

DAY = 86_400


def _forget(app: Outlast, *task_ids: str) -> None:
    """What retention will do: remove tasks with their moves, and say so in that transaction."""

    def operation(tx: Transaction) -> None:
        assert isinstance(tx, SqliteTransaction)
        rows = [tx.connection.execute("SELECT seq FROM tasks WHERE id = ?", (one,)).get
                for one in task_ids]  # fmt: skip
        last = tx.connection.execute(
            "SELECT max(pos) FROM transitions WHERE task_seq = ?", (max(rows),)
        ).get
        tx.run("delete_tasks", {"seqs": tx.ids(rows)})
        mark = Cursor(int(last), max(rows))
        tx.run("set_meta", {"key": cursors.FORGOTTEN, "value": str(mark)})

    store_of(app).tasks._access.write("purge", operation)


def _done(app: Outlast, task_id: str) -> None:
    app.enqueue("work", id=task_id)
    (lease,) = app.claim("w")
    lease.complete()


def _attend(app: Outlast, name: str, **how: str) -> Listener:
    """Hear all there is under a name, then leave."""
    listener = Listener()
    with app.subscribe(listener, name, **how) as subscription:  # type: ignore[arg-type]
        assert subscription.catch_up(DEADLINE_SECONDS)
    return listener


def test_one_that_lapsed_is_first_told_how_much_it_missed(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(cursor_retention_seconds=DAY)
    _attend(app, "audit")
    for task_id in "abcd":
        _done(app, task_id)
    clock.advance("2d")
    assert [one.has_lapsed for one in app.subscribers()] == [True]
    _forget(app, "a", "b")
    listener = _attend(app, "audit")
    assert listener.kinds[0] == "stream.missed"
    assert listener.kinds.count("stream.missed") == 1
    missed = listener.told[0].data
    assert (missed["positions"], missed["creations"]) == (4, 2)
    assert [event.task_id for event in listener.told if event.kind == "task.completed"] == [
        "c",
        "d",
    ]
    assert not app.subscribers()[0].has_lapsed
    _done(app, "e")
    assert "stream.missed" not in _attend(app, "audit").kinds


def test_one_that_was_told_what_it_missed_is_not_told_again_before_it_has_heard_the_rest(
    app: Outlast, database: Path
) -> None:
    """What is left of the forgotten part may be longer than a batch."""
    _attend(app, "audit")
    app.enqueue_many("work", range(300), id=[f"t{n}" for n in range(300)])
    leases = app.claim("w", limit=300)
    app.complete_many([(lease, None) for lease in leases])
    _forget(app, "t299")
    listener = Listener()
    listener.fails = lambda event: len(listener.told) == 120
    ended = app.subscribe(listener, "audit", on_error="stop", tries=1)
    ended.catch_up(DEADLINE_SECONDS)
    assert listener.kinds.count("stream.missed") == 1
    assert app.subscribers()[0].cursor.forgotten > 0
    assert "stream.missed" not in _attend(app, "audit").kinds


def test_nobody_is_told_of_gaps_that_are_behind_it_or_before_it_began(app: Outlast) -> None:
    _done(app, "a")
    _attend(app, "audit")
    _forget(app, "a")
    _done(app, "b")
    assert "stream.missed" not in _attend(app, "audit").kinds
    assert "stream.missed" not in _attend(app, "new", after="0.0").kinds
    assert "stream.missed" not in [event.kind for event in app.newest_events(50)]


def test_the_newest_are_found_although_the_youngest_rows_are_gone(app: Outlast) -> None:
    _done(app, "kept")
    gone = [f"gone-{number}" for number in range(30)]
    for task_id in gone:
        _done(app, task_id)
    _forget(app, *gone)
    assert [event.kind for event in app.newest_events(3)] == [
        "task.enqueued",
        "task.claimed",
        "task.completed",
    ]
    assert app.newest_events(1000) == app.events()


def test_one_that_reads_page_by_page_is_told_too_and_can_read_on(app: Outlast) -> None:
    app.open()
    place = app.events()[-1].cursor
    _done(app, "a")
    _done(app, "b")
    _forget(app, "a")
    kinds = []
    while found := app.events(place, 1, kinds=["task.completed"]):
        kinds += [event.kind for event in found]
        place = found[-1].cursor
    assert kinds == ["stream.missed", "task.completed"]


@pytest.mark.parametrize("place", ["0.0", "2.0"])
def test_a_store_that_forgot_nothing_misses_nothing(app: Outlast, place: str) -> None:
    app.open()
    _done(app, "a")
    app.enqueue("work", id="taken")
    app.take(1)
    assert "stream.missed" not in [event.kind for event in app.events(place)]


def test_a_cursor_never_falls_back(app: Outlast, clock: ManualClock) -> None:
    _done(app, "a")
    _attend(app, "audit")
    (before,) = app.subscribers()
    place = store_of(app).events.cursor("audit")
    assert place is not None
    assert not store_of(app).events.move_cursor(
        "audit", place._replace(cursor=Cursor(1, 0)), clock.now()
    )
    assert app.subscribers() == [before]
