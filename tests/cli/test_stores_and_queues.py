"""Commands about the store and its queues: migrating, figures, pausing."""

import os
from pathlib import Path

import apsw
import pytest

from outlast import Outlast
from outlast.cli.exits import Exit
from outlast.testing import ManualClock
from outlast_lab.record.newer import NEXT
from tests.cli.conftest import Call
from tests.store.golden import apply_migrations
from tests.support.children import Child
from tests.support.foreign import foreign_rows
from tests.support.newer import SHIPPED, know_next

NEWEST = len(SHIPPED)


@pytest.fixture
def old_store(database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as an older library left it."""
    connection = apsw.Connection(str(database))
    apply_migrations(connection)
    connection.close()
    know_next(monkeypatch)
    return database


def _contents(database: Path) -> tuple[list[list[object]], list[str]]:
    """The version and the whole schema as a foreign tool sees them, and the files there are."""
    rows = foreign_rows(database, "SELECT name, sql FROM sqlite_schema ORDER BY name")
    version = foreign_rows(database, "SELECT max(version) FROM schema_version")
    return [*version, *rows], sorted(os.listdir(database.parent))


@pytest.mark.proves("CLI-10")
def test_migrate_applies_what_is_lacking_and_verify_changes_nothing(
    outlast: Call, old_store: Path
) -> None:
    before = _contents(old_store)
    said = outlast("store", "migrate", "--verify")
    assert (said.code, said.out) == (Exit.NO, "")
    assert f"lacks migration {NEXT.number} (next)" in said.err
    assert _contents(old_store) == before
    applied = outlast("store", "migrate", "--json").data
    assert applied == {"applied": [f"{NEXT.number:04d}_next"], "version": NEXT.number}
    assert outlast("store", "migrate", "--json").data == {"applied": [], "version": NEXT.number}


@pytest.mark.proves("CLI-10")
def test_verify_shows_version_tables_and_schema(outlast: Call, app: Outlast) -> None:
    app.open()
    app.close()
    before = _contents(app.path)
    said = outlast("store", "migrate", "--verify")
    assert said.code == Exit.FINE
    assert f"The schema is version {NEWEST} and current." in said.out
    rows = foreign_rows(app.path, "SELECT name, sql, type FROM sqlite_schema WHERE sql NOT NULL")
    data = outlast("store", "migrate", "--verify", "--json").data
    assert data["version"] == NEWEST
    assert len(data["migrations"]) == NEWEST
    assert data["schema"] == {name: sql for name, sql, _ in rows}
    for kind, plural in (("table", "tables"), ("view", "views"), ("index", "indexes")):
        assert set(data[plural]) == {name for name, _, found in rows if found == kind}
    shown = said.out.replace("\n  ", "\n")
    for name, sql, _ in rows:
        assert name in shown
        assert sql in shown, name
    assert _contents(app.path) == before


def test_a_store_in_use_is_not_migrated_and_its_users_are_named(
    outlast: Call, old_store: Path
) -> None:
    with Child(_holds_the_store, str(old_store)) as child:
        child.hear()
        said = outlast("store", "migrate")
        assert said.code == Exit.STORE_UNUSABLE
        assert str(child.pid) in said.err


def _holds_the_store(path: str) -> None:
    import fcntl
    import os

    from tests.support.childside import hear, say

    os.makedirs(f"{path}-outlast", exist_ok=True)
    with open(f"{path}-outlast/openers", "w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        say()
        hear()


def test_a_store_of_a_later_version_is_refused_with_advice(outlast: Call, app: Outlast) -> None:
    app.open()
    app.close()
    connection = apsw.Connection(str(app.path))
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%checksum%'")
    table = next(
        str(name) for name, sql in rows if "TABLE" in str(sql) and "migration" in str(name)
    )
    connection.execute(
        f"INSERT INTO {table} SELECT 999, 'future', checksum, applied_at FROM {table} LIMIT 1"
    )
    connection.close()
    for words in (("task", "list"), ("store", "migrate"), ("store", "migrate", "--verify")):
        said = outlast(*words)
        assert (said.code, said.out, said.err.count("\n")) == (Exit.STORE_UNUSABLE, "", 1)
        assert "upgrade Outlast" in said.err
    assert outlast("health").code == 2


@pytest.mark.proves("CLI-11")
def test_stats_prints_the_three_monitoring_queries(
    outlast: Call, app: Outlast, clock: ManualClock
) -> None:
    """By kind and status with the mean age, the leases, the checkpoints; as the seed asks them."""
    app.enqueue("index", id="t1")
    app.enqueue("index", id="t2")
    clock.advance("1h")
    app.enqueue("mail", id="t3")
    first, second = app.claim("w1", limit=2, lease="2h")
    for page in range(3):
        first.checkpoint("iteration_end", {"page": page})
    second.checkpoint("iteration_end", {"page": 0})
    clock.advance("10m")
    second.renew()
    clock.advance("1m")
    data = outlast("queue", "stats", "--json").data
    assert data["counts"] == {
        "pending": 1, "running": 2, "completed": 0, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    by_kind = {(one["kind"], one["status"]): one for one in data["tasks"]}
    assert {key: one["count"] for key, one in by_kind.items()} == {
        ("index", "running"): 2,
        ("mail", "pending"): 1,
    }
    assert by_kind["index", "running"]["mean_age_hours"] == pytest.approx(71 / 60)
    assert by_kind["mail", "pending"]["mean_age_hours"] == pytest.approx(11 / 60)
    assert data["leases"] == {
        "active": 2, "stale": 1, "mean_minutes_since_beat": 6, "ran_out": 0,
    }  # fmt: skip
    assert [
        (one["task_id"], one["count"], one["last_sequence"]) for one in data["checkpoints"]
    ] == [
        ("t1", 3, 3),
        ("t2", 1, 1),
    ]
    lines = [line.split() for line in outlast("queue", "stats").out.splitlines()]
    assert ["index", "running", "2", "1.18"] in lines
    assert ["2", "1", "6.00", "0"] in lines
    assert [line[:3] for line in lines if line[:1] == ["t1"]] == [["t1", "3", "3"]]


@pytest.mark.proves("CLI-11")
def test_stats_names_the_queues_that_are_paused(outlast: Call, app: Outlast) -> None:
    app.enqueue("index")
    assert outlast("queue", "stats", "--json").data["paused_queues"] == []
    app.pause("slow")
    app.pause("gpu")
    assert outlast("queue", "stats", "--json").data["paused_queues"] == ["gpu", "slow"]
    assert "paused queues: gpu, slow" in outlast("queue", "stats").out


def test_counts_can_be_of_one_queue(outlast: Call, app: Outlast) -> None:
    app.enqueue("index")
    app.enqueue("index", queue="slow")
    assert outlast("queue", "stats", "--json").data["counts"]["pending"] == 2
    assert outlast("queue", "stats", "--queue", "slow", "--json").data["counts"]["pending"] == 1


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(outlast: Call, app: Outlast) -> None:
    app.enqueue("index", queue="slow")
    assert outlast("queue", "pause", "slow").out == "Queue slow is paused.\n"
    assert outlast("queue", "pause", "slow", "--json").data == {
        "queue": "slow", "paused": True, "changed": False,
    }  # fmt: skip
    assert app.claim("w1", queue="slow") == []
    assert outlast("queue", "resume", "slow").out == "Queue slow is open.\n"
    assert len(app.claim("w1", queue="slow")) == 1
