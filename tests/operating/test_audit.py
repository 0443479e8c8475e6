"""The audit: an entry for each run and pass, and for each item that recovery or people moved."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast
from outlast.cli.output.text import moment
from outlast.testing import ManualClock
from tests.cli.shell import piped
from tests.recovery.stage import crash, rows
from tests.store.hand import Hand
from tests.support.children import Child

Make = Callable[..., Outlast]


@pytest.mark.proves("OBS-08")
def test_a_recovery_from_a_crash_has_an_entry_with_all_that_is_asked_of_it(
    app: Outlast, database: Path, clock: ManualClock
) -> None:
    app.enqueue_many("work", range(3))
    app.close()
    crash(database)
    clock.advance("2m")
    report = app.recover()
    (entry,) = app.audit()
    assert (entry.actor, entry.source) == ("system/recovery", "crash_recovery")
    assert (entry.action, entry.status) == ("recover_from_crash", "succeeded")
    assert (entry.run_id, entry.at) == (report.run_id, report.completed_at)
    assert report.crashed_at is not None
    assert dict(entry.data) == {
        "put_back": 3,
        "failed": 0,
        "held": 0,
        "skipped": 0,
        "dead_workers": 1,
        "duration_seconds": report.duration_seconds,
        "previous_crash_at": moment(report.crashed_at),
        "errors": 0,
    }
    raw = rows(database, "SELECT source, action, status, run_id FROM audit")
    assert raw == [("crash_recovery", "recover_from_crash", "succeeded", report.run_id)]
    app.recover()
    assert len(app.audit()) == 1, "a run that found nothing is no recovery from a crash"


@pytest.mark.proves("OBS-09")
def test_each_healed_item_has_an_entry(app: Outlast, clock: ManualClock) -> None:
    app.enqueue_many("work", range(2), id=["a", "b"])
    app.claim("slow", limit=2, lease="10s")
    app.lock("merge", ttl=10, holder="slow").acquire()
    began_at = app.locks()[0].acquired_at
    clock.advance("1m")
    app.heal()
    (passed,) = app.audit()
    assert (passed.source, passed.action, passed.data["put_back"]) == ("self_healing", "heal", 2)
    items = app.audit(items=True)
    assert sorted((one.action, one.subject) for one in items) == [
        ("lease_expired_retry", "a"), ("lease_expired_retry", "b"), ("lock.expired", "merge"),
    ]  # fmt: skip
    assert {(one.actor, one.source) for one in items} == {("system/recovery", "self_healing")}
    lock = next(one for one in items if one.subject == "merge")
    assert (lock.data["acquired_at"], lock.data["expires_at"]) == (
        moment(began_at), moment(began_at + timedelta(seconds=10)),
    )  # fmt: skip
    task = next(one for one in items if one.subject == "a")
    assert (task.data["from"], task.data["to"], task.data["worker"]) == (
        "running", "pending", "slow",
    )  # fmt: skip


def _holds_tasks_and_locks(path: str) -> None:
    from outlast import Outlast
    from outlast.testing import ManualClock
    from tests.support.childside import hear, say

    app = Outlast(path, clock=ManualClock())
    app.claim("lives")
    app.next_with_lock("lives", lock="with its task")
    app.lock("of its own", ttl=300, holder="lives").acquire()
    say("holds")
    hear()


def test_what_is_taken_from_a_worker_by_somebodys_word_stands_under_that_name(
    app: Outlast, database: Path
) -> None:
    """Its tasks and its locks too, batch by batch and item by item."""
    app.enqueue_many("work", range(2), id=["a", "b"])
    with Child(_holds_tasks_and_locks, database) as child:
        assert child.hear() == "holds"
        (victim,) = [one for one in app.workers() if one.name == "lives"]
        assert app.mark_dead(victim.incarnation, by="ada", force=True) is not None
    assert {(one.actor, one.source) for one in app.audit()} == {("operator/ada", "library")}
    whose = {(one.actor, one.source) for one in app.audit(items=True)}
    assert whose == {("operator/ada", "operator")}
    items = {one.subject for one in app.audit(items=True)}
    assert items == {"a", "b", "of its own", "with its task"}


def test_pages_follow_each_other_and_the_newest_come_in_order(app: Outlast) -> None:
    for number in range(5):
        app.pause(f"q{number}", by="ada")
    first = app.audit(limit=2)
    rest = app.audit(after=first[-1].id)
    assert [one.subject for one in (*first, *rest)] == [f"q{number}" for number in range(5)]
    assert [one.subject for one in app.audit(limit=2, newest=True)] == ["q3", "q4"]
    for wrong in ({"limit": 0}, {"after": -1}, {"limit": True}):
        with pytest.raises(InvalidInput):
            app.audit(**wrong)


def test_nobody_rewrites_the_audit(app: Outlast, database: Path) -> None:
    app.pause("q", by="ada")
    hand = Hand(database)
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        hand.run("UPDATE audit SET actor = 'operator/nobody'")
    hand.connection.close()


def test_payloads_never_get_into_the_audit(app: Outlast, database: Path) -> None:
    app.enqueue("work", {"password": "hunter2"}, id="t1")
    app.claim("w")
    app.force("t1", "fail", by="ada")
    app.force("t1", "retry", by="ada")
    shown = json.dumps([dict(one.data) for one in (*app.audit(), *app.audit(items=True))])
    assert "hunter2" not in shown


def test_coroutines_read_and_act_alike(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="t1")

    async def act() -> None:
        async with AsyncOutlast(database) as other:
            done = await other.force("t1", "fail", by="ada")
            assert done.status == "failed"
            clone = await other.retry("t1", by="ada")
            assert clone.retry_of == "t1"
            assert await other.audit() == app.audit()
            assert len(await other.audit()) == 2

    asyncio.run(act())


def test_the_command_shows_it_for_people_and_for_machines(app: Outlast, database: Path) -> None:
    app.pause("q", by="ada")
    app.enqueue("work", id="t1")
    app.force("t1", "fail", by="ada\N{SNOWMAN}", reason="why\x1b[31m")
    app.close()
    folder = database.parent
    data = json.loads(piped(folder, "queue", "audit", "--json", "--store", database).stdout)
    assert [(one["actor"], one["action"], one["subject"]) for one in data] == [
        ("operator/ada", "queue.pause", "q"), ("operator/ada\N{SNOWMAN}", "task.fail", "t1"),
    ]  # fmt: skip
    shown = piped(folder, "queue", "audit", "--store", database)
    assert "operator/ada" in shown.stdout
    assert "\x1b" not in shown.stdout
    items = piped(folder, "queue", "audit", "--items", "--json", "--store", database)
    assert [one["subject"] for one in json.loads(items.stdout)] == ["t1"]
    after = piped(folder, "queue", "audit", "--after", "1", "--json", "--store", database)
    assert [one["id"] for one in json.loads(after.stdout)] == [2]
