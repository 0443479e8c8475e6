"""What the dead held is free again: tasks and named locks, by heal or by the next claim alone."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.testing import ManualClock
from tests.healing.stage import Holder, add_lock, crashed_holder, lock_names
from tests.store.hand import Hand, store_of
from tests.support.foreign import assert_sound

HELD_BY = """
    SELECT 'task', t.id FROM tasks t JOIN workers w ON w.seq = t.holder WHERE w.pid = :pid
    UNION ALL
    SELECT 'lock', l.name FROM locks l JOIN workers w ON w.seq = l.holder WHERE w.pid = :pid
    UNION ALL
    SELECT 'alive', w.name FROM workers w WHERE w.pid = :pid AND w.state = 'alive'
"""


def held_by(hand: Hand, pid: int) -> list[tuple[str, str]]:
    return hand.rows(HELD_BY.replace(":pid", str(pid)))


@pytest.mark.proves("HEAL-06")
def test_no_row_names_the_dead_as_a_holder_and_the_living_keep_theirs(
    app: Outlast, clock: ManualClock, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    app.enqueue_many("work", range(3))
    with Holder(app.path, "lives") as living:
        living.claims(lease="1h")
        ids = [task.id for task in app.tasks("pending")]
        with Holder(app.path, "dies") as dying:
            assert sorted(dying.claims(2, lease="1h")) == sorted(ids)
            add_lock(hand, "of the dead", clock, 3600, dying.pid)
            add_lock(hand, "of the living", clock, 3600, living.pid)
            assert len(held_by(hand, dying.pid)) == 4
            dying.kill()
            stats = app.heal()
        assert (stats.entries_reclaimed, stats.locks_cleaned) == (2, 1)
        assert held_by(hand, dying.pid) == []
        assert len(held_by(hand, living.pid)) == 3
        assert lock_names(hand) == ["of the living"]
    assert f"worker dies (pid {dying.pid}) is dead" in caplog.text


@pytest.mark.proves("HEAL-07")
@pytest.mark.parametrize("how", ["crash", "silence"])
def test_the_next_claim_alone_hands_out_what_was_left(
    app: Outlast, clock: ManualClock, how: str
) -> None:
    app.enqueue("work", id="t")
    if how == "crash":
        with crashed_holder(app.path, ["t"]):
            leases = app.claim("next")
    else:
        app.claim("silent", lease="1m")
        clock.advance("1m")
        leases = app.claim("next")
    assert [(one.task_id, one.attempt) for one in leases] == [("t", 2)]


@pytest.mark.proves("HEAL-07")
def test_what_was_left_is_handed_out_before_what_came_later(app: Outlast) -> None:
    """Healing comes before the choice, so an orphan does not wait until the queue is empty."""
    app.enqueue("work", id="orphan")
    with crashed_holder(app.path, ["orphan"]):
        app.enqueue_many("work", range(3))
        assert [one.task_id for one in app.claim("next")] == ["orphan"]


@pytest.mark.proves("HEAL-08")
@pytest.mark.parametrize("holder", ["the living", "nobody"])
def test_a_lock_that_ran_out_is_gone_after_one_claim(
    app: Outlast,
    clock: ManualClock,
    hand: Hand,
    caplog: pytest.LogCaptureFixture,
    holder: str,
) -> None:
    with Holder(app.path, "lives") as living:
        living.asks("heartbeat")
        pid = living.pid if holder == "the living" else None
        add_lock(hand, "over", clock, 300, pid)
        add_lock(hand, "not over", clock, 300.001, pid)
        clock.advance("299.999s")
        assert app.claim("w") == []
        assert lock_names(hand) == ["not over", "over"]
        clock.advance("1ms")
        with caplog.at_level(logging.WARNING, "outlast"):
            assert app.claim("w") == []
        assert lock_names(hand) == ["not over"]
    told = [one.getMessage() for one in caplog.records if "lock" in one.getMessage()]
    assert told == ["lock over of worker w ran out 0.0 s ago"]


def test_more_locks_than_a_batch_run_out_together(
    make_app: Callable[..., Outlast], clock: ManualClock, hand: Hand
) -> None:
    app = make_app(heal_batch=3)
    for n in range(8):
        add_lock(hand, f"lock {n}", clock, 1, None)
    clock.advance("1s")
    assert app.recovery_stats().locks_cleaned == 8
    assert app.heal().locks_cleaned == 8
    assert lock_names(hand) == []


def test_a_lock_that_was_prolonged_while_it_was_found_is_kept(
    app: Outlast, clock: ManualClock, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_lock(hand, "prolonged", clock, 1, None)
    clock.advance("1s")
    recovery = store_of(app).recovery
    put_back = recovery._batch

    def prolonged_first(context: str, operation: object) -> object:
        hand.run("UPDATE locks SET expires_at = expires_at + 1, token = 2")
        return put_back(context, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(recovery, "_batch", prolonged_first)
    assert app.heal().locks_cleaned == 0
    assert lock_names(hand) == ["prolonged"]


@pytest.mark.proves("HEAL-23")
def test_a_predecessors_tasks_run_again_and_those_of_the_living_stay_where_they_are(
    app: Outlast, clock: ManualClock, database: Path
) -> None:
    """Judged by incarnation: all of this happens within one millisecond, under one name."""
    app.enqueue_many("work", range(4), id=["begun", "fetched", "left", "ours"])
    with Holder(database, "w") as living:
        assert living.claims() == ["begun"]
        assert living.asks("prefetch") == ["fetched"]
        with crashed_holder(database, ["left", "ours"]):
            pass
        with Holder(database, "w") as successor:
            assert successor.claims(limit=4) == ["left", "ours"]
            assert app.heal().entries_reclaimed == 0
            assert {task.id: task.attempt for task in app.tasks("running")} == {
                "begun": 1, "fetched": 1, "left": 2, "ours": 2,
            }  # fmt: skip
            for task_id in ("begun", "fetched"):
                assert living.asks("complete", task_id) is True
            for task_id in ("left", "ours"):
                assert successor.asks("complete", task_id) is True
    assert_sound(database)
