"""At every commit of a run its record tells what was done, neither more nor less."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, probes
from outlast.store.ops.recovery import loss_causes
from outlast.testing import ManualClock
from tests.orphans.left_behind import by_hand, killed, markers_of
from tests.store.hand import Hand

# What must never be seen, by anybody, at any moment.
NEVER = {
    "a worker that counts as dead and holds tasks": """
        SELECT w.name FROM tasks t JOIN workers w ON w.seq = t.holder WHERE w.state = 'dead'""",
    "a death without its one event": """
        SELECT w.name FROM workers w WHERE w.state = 'dead' AND 1 <> (SELECT count(*) FROM events e
            WHERE e.kind = 'worker.dead' AND e.incarnation = w.incarnation)""",
    "the event of a death that nobody died": """
        SELECT e.worker_id FROM events e JOIN workers w USING (incarnation)
        WHERE e.kind = 'worker.dead' AND w.state <> 'dead'""",
    "a run without the event of its beginning": """
        SELECT r.id FROM recovery_runs r WHERE 1 <> (SELECT count(*) FROM events e
            WHERE e.kind = 'recovery.started' AND e.run_id = r.id)""",
    "a completed run without the event of its end, or the other way round": """
        SELECT r.id FROM recovery_runs r WHERE (r.completed_at IS NOT NULL) <> (
            SELECT count(*) FROM events e
            WHERE e.kind = 'recovery.completed' AND e.run_id = r.id)""",
    "a move of a run that no event of its progress counts, or the other way round": """
        SELECT r.id FROM recovery_runs r
        WHERE (SELECT count(*) FROM transitions x WHERE x.run_id = r.id) <> (
            SELECT coalesce(sum(e.data ->> 'put_back' + e.data ->> 'failed'), 0) FROM events e
            WHERE e.kind = 'recovery.progress' AND e.run_id = r.id)""",
    "a completed run whose figures are not those of its moves": """
        SELECT r.id FROM recovery_runs r WHERE r.completed_at IS NOT NULL AND r.put_back <> (
            SELECT count(*) FROM transitions x
            WHERE x.run_id = r.id AND x.to_status = 'pending')""",
    "a task that was put back and still has a holder, or was not counted": """
        SELECT t.id FROM tasks t WHERE t.status = 'pending' AND t.recovery_count <> (
            SELECT count(*) FROM transitions x WHERE x.task_seq = t.seq
               AND x.actor = 'system/recovery')""",
    "a place in the stream that a move and an event share": """
        SELECT e.pos FROM events e JOIN transitions x USING (pos)""",
}


FROZEN = """
    CREATE TRIGGER frozen BEFORE UPDATE OF status ON tasks WHEN old.id = 'stubborn'
    BEGIN SELECT RAISE(ABORT, 'it is frozen'); END"""


@pytest.fixture
def hand(make_app: Callable[..., Outlast], database: Path) -> Iterator[Hand]:
    make_app().open()
    by_hand = Hand(database)
    yield by_hand
    by_hand.close()


@pytest.mark.proves("HEAL-05")
def test_at_every_commit_of_a_run_the_record_is_true(
    make_app: Callable[..., Outlast], hand: Hand, database: Path, clock: ManualClock
) -> None:
    app = make_app(heal_batch=2)
    app.enqueue_many("work", range(8))
    app.claim("slow", limit=3, lease="1s")
    killed(database, "first", limit=3)
    killed(database, "second")
    clock.advance("1m")
    seen: list[str] = []

    def look(name: str) -> None:
        if name.endswith(".committed"):
            seen.append(name)
            assert {why: hand.rows(query) for why, query in NEVER.items() if hand.rows(query)} == {}

    probes.arm(look)
    try:
        report = app.recover()
    finally:
        probes.arm(None)
    assert (report.tasks_put_back, len(report.dead_workers)) == (8, 2)
    assert seen[-1] == "recover.committed"
    assert seen[:-1] == ["heal.committed"] * len(seen[:-1])
    assert len(seen) > 5


@pytest.mark.proves("HEAL-05")
def test_a_death_that_two_see_at_once_is_told_by_one(
    app: Outlast, hand: Hand, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other healer comes and goes between our judgement and our transaction."""
    app.enqueue_many("work", range(3))
    killed(database)
    evidence = loss_causes.evidence
    others: list[Any] = []

    def another_was_faster(*given: Any) -> Any:
        if not others:
            others.append(None)
            others[:] = [app.heal()]
        return evidence(*given)

    monkeypatch.setattr(loss_causes, "evidence", another_was_faster)
    stats, (other,) = app.heal(), others
    assert other is not None
    assert (other.entries_reclaimed, other.dead_workers) == (3, ("victim",))
    assert (stats.entries_reclaimed, stats.dead_workers) == (0, ())
    assert hand.rows("SELECT worker_id FROM events WHERE kind = 'worker.dead'") == [("victim",)]


@pytest.mark.proves("REC-35")
def test_who_is_told_of_a_batch_may_stop_the_run_and_what_was_told_stands(
    make_app: Callable[..., Outlast], hand: Hand, database: Path
) -> None:
    app = make_app(heal_batch=2)
    app.enqueue_many("work", range(5))
    killed(database)
    told: list[int] = []

    def enough(batch: Any) -> None:
        told.append(batch.put_back)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.recover(on_batch=enough)
    assert (told, app.counts()["pending"]) == ([2], 2)
    assert app.recover().tasks_put_back == 3
    for why, query in NEVER.items():
        assert hand.rows(query) == [], why


@pytest.mark.proves("REC-06")
def test_a_run_that_could_not_do_all_leaves_the_markers_for_the_next(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app()
    app.enqueue("work", id="stubborn")
    killed(database)
    app.close()
    (crashed,) = markers_of(database)
    by_hand(database, FROZEN)
    assert not app.recover().was_successful()
    app.close()
    assert markers_of(database) == [crashed]
    by_hand(database, "DROP TRIGGER frozen")
    report = app.recover()
    assert (report.previous, report.was_successful()) == ("unclean", True)
    app.close()
    assert markers_of(database) == []
