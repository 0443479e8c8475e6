"""Who works here, and how each is: what heartbeat writes, and what workers() makes of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, PayloadRejected, WorkerInfo, WorkerState
from outlast.testing import ManualClock
from tests.store.hand import Hand
from tests.support.children import Child
from tests.support.foreign import foreign_rows


@pytest.fixture
def hand(app: Outlast) -> Any:
    app.open()
    made = Hand(app.path)
    yield made
    made.close()


def only(app: Outlast) -> WorkerInfo:
    (found,) = app.workers()
    return found


@pytest.mark.proves("HB-03")
def test_one_beat_writes_worker_task_time_and_progress(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue("work", id="t1")
    app.heartbeat("w1", ["t1"], {"done": 3, "of": 9})
    row = hand.row("SELECT worker_id, task_id, timestamp FROM worker_heartbeats")
    assert row == ("w1", "t1", "2027-01-15T08:00:00.000Z")
    assert hand.value("SELECT progress FROM workers") == '{"done":3,"of":9}'
    worker = only(app)
    assert (worker.name, worker.beat_task_id) == ("w1", "t1")
    assert worker.beat_at.timestamp() * 1000 == clock.now().utc_ms
    assert worker.progress == {"done": 3, "of": 9}
    assert (worker.pid, worker.state) == (os.getpid(), WorkerState.ALIVE)


@pytest.mark.proves("HB-03")
def test_a_beat_that_names_no_task_shows_those_its_worker_holds(app: Outlast, hand: Hand) -> None:
    app.enqueue_many("work", range(2), id=["t1", "t2"])
    app.claim("w1", limit=2)
    app.heartbeat("w1")
    assert hand.row("SELECT worker_id, task_id FROM worker_heartbeats") == ("w1", "t1")
    assert only(app).task_ids == ("t1", "t2")


@pytest.mark.proves("HB-04")
def test_a_hundred_beats_leave_one_row_and_touch_no_task(
    app: Outlast, clock: ManualClock, hand: Hand
) -> None:
    app.enqueue_many("work", range(2), id=["t1", "t2"])
    renewed, _ = app.claim("w1", limit=2)
    before = [hand.task("t1"), hand.task("t2")]
    for n in range(100):
        clock.advance("1s")
        app.heartbeat("w1", ["t1", "t2"], n)
    assert hand.value("SELECT count(*) FROM workers") == 1
    assert hand.rows("SELECT worker_id, timestamp FROM worker_heartbeats") == [
        ("w1", "2027-01-15T08:01:40.000Z")
    ]
    assert [hand.task("t1"), hand.task("t2")] == before
    renewed.renew()
    assert hand.task("t1") != before[0]
    assert hand.task("t2") == before[1]


@pytest.mark.proves("HB-06")
def test_deleting_a_task_empties_the_beat_that_named_it(app: Outlast, hand: Hand) -> None:
    app.enqueue_many("work", range(2), id=["t1", "t2"])
    app.heartbeat("w1", ["t1"])
    app.heartbeat("w2", ["t2"])
    assert hand.connection.pragma("foreign_keys") == 1
    assert hand.run("DELETE FROM tasks WHERE id = 't1'") == 1
    assert hand.rows("SELECT name, task_seq FROM workers ORDER BY name") == [
        ("w1", None),
        ("w2", 2),
    ]
    assert hand.rows("SELECT task_id FROM worker_heartbeats ORDER BY 1") == [(None,), ("t2",)]
    second, first = app.workers()
    assert (first.beat_task_id, second.beat_task_id) == (None, "t2")


@pytest.mark.proves("HB-06")
def test_a_beat_may_name_a_task_that_is_gone(app: Outlast) -> None:
    """A beat that failed over it would make its worker look dead."""
    app.enqueue("work", id="t1")
    app.take()
    app.heartbeat("w1", ["t1", "never was"])
    assert (only(app).state, only(app).beat_task_id) == ("alive", None)


def test_a_beat_under_a_name_that_claims_too_is_the_same_worker(app: Outlast) -> None:
    app.heartbeat("w1")
    app.enqueue("work", id="t1")
    app.claim("w1")
    assert only(app).task_ids == ("t1",)


def _beats_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.enqueue("work", id="t1", idempotency_key="t1")
    app.claim("w1")
    app.heartbeat("idle")
    say("beaten")
    if hear() == "close":
        app.close()
        say("closed")
        hear()


def test_processes_that_share_a_name_have_a_row_each(make_app: Callable[..., Outlast]) -> None:
    app = make_app()
    with Child(_beats_and_waits, app.path) as child:
        assert child.hear() == "beaten"
        app.heartbeat("w1")
        here, _, there = app.workers()
        assert (here.name, there.name) == ("w1", "w1")
        assert (here.pid, there.pid) == (os.getpid(), child.pid)
        assert here.incarnation != there.incarnation
        assert (here.task_ids, there.task_ids) == ((), ("t1",))


def test_a_killed_worker_is_shown_as_dead_before_anybody_has_healed(database: Path) -> None:
    """The kernel frees its lock with it; who only looks writes nothing down."""
    with Child(_beats_and_waits, database) as child:
        assert child.hear() == "beaten"
        app = Outlast(database)
        assert [one.state for one in app.workers()] == ["alive", "alive"]
        assert app.is_alive("w1")
        child.kill()
    idle, worker = app.workers()
    assert (idle.state, worker.state) == ("dead", "dead")
    assert (worker.task_ids, worker.ended_at) == (("t1",), None)
    assert not app.is_alive("w1")
    app.close()
    states = foreign_rows(database, "SELECT DISTINCT state FROM workers")
    assert states == [["alive"]]


@pytest.mark.slow
def test_those_who_left_and_those_who_were_buried_stay_on_the_list(app: Outlast) -> None:
    for how in ("close", "kill"):
        with Child(_beats_and_waits, app.path) as child:
            assert child.hear() == "beaten"
            if how == "close":
                child.say("close")
                assert child.hear() == "closed"
    app.heal()
    buried, left = app.workers()[::2]
    assert [(one.state, one.task_ids) for one in (buried, left)] == [("dead", ()), ("left", ())]
    assert None not in (buried.ended_at, left.ended_at)
    assert not app.is_alive("w1")


def test_a_worker_is_alive_while_it_beats_and_unknown_ones_are_not(
    app: Outlast, clock: ManualClock
) -> None:
    app.heartbeat("w1")
    assert app.is_alive("w1")
    assert not app.is_alive("w2")
    clock.advance("90s")
    assert app.is_alive("w1")
    clock.advance("1ms")
    assert not app.is_alive("w1")
    assert only(app).state is WorkerState.STALE
    assert only(app).silent_seconds == 90.001
    app.heartbeat("w1")
    assert app.is_alive("w1")


def test_the_time_until_silence_counts_is_a_setting(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heartbeat_interval_seconds=1, heartbeat_stale_seconds=5)
    app.heartbeat("w1")
    clock.advance("5s")
    assert app.is_alive("w1")
    clock.advance("1ms")
    assert not app.is_alive("w1")


def test_a_process_that_was_declared_dead_beats_on_as_a_new_one(app: Outlast, hand: Hand) -> None:
    app.heartbeat("w1", progress="first")
    hand.run("UPDATE workers SET state = 'dead', ended_at = 1")
    app.heartbeat("w1", progress="second")
    new, old = app.workers()
    assert (old.state, old.progress) == ("dead", "first")
    assert (new.state, new.progress) == ("alive", "second")
    assert new.incarnation != old.incarnation


def test_one_that_lives_is_listed_however_many_died_after_it(app: Outlast, hand: Hand) -> None:
    app.heartbeat("old and well")
    hand.run(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)"
        " INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace,"
        " lock_file, lock_inode, state, registered_at, beat_at, beat_mono_ms, ended_at)"
        " SELECT 'i' || i, 'w' || i, 'h', 'b', i, 1, 'n', 'f', 1, 'dead', 1, 1, 1, 2 FROM n"
    )
    assert [one.name for one in app.workers(limit=3)] == ["w20", "w19", "old and well"]
    assert len(app.workers()) == 21


def test_of_many_tasks_a_worker_shows_a_thousand_and_their_number(app: Outlast) -> None:
    ids = app.enqueue_many("work", range(1200))
    app.claim("w1", limit=1200)
    worker = only(app)
    assert (worker.task_count, worker.task_ids) == (1200, tuple(ids[:1000]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker": ""},
        {"worker": None},
        {"task_ids": "t1"},
        {"task_ids": 5},
        {"task_ids": [5]},
        {"task_ids": ["t"] * 1001},
        {"progress": {1}},
        {"progress": "x" * 10_001},
    ],
)
def test_a_beat_that_makes_no_sense_is_refused_before_anything_is_opened(
    app: Outlast, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises((InvalidInput, PayloadRejected)):
        app.heartbeat(**({"worker": "w1"} | wrong))
    assert os.listdir(tmp_path) == []
