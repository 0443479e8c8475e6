"""What each connection is told, and whether SQLite really did it."""

import logging
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast, Settings
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows
from tests.support.snapshots import foreign_snapshot


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection that is made while the test runs."""
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    yield made
    apsw.connection_hooks.remove(made.append)


def _told_by(connections: list[apsw.Connection], pragma: str) -> list[Any]:
    told = []
    for connection in connections:
        try:
            told.append(connection.pragma(pragma))
        except apsw.ConnectionClosedError:
            continue
    return told


@pytest.mark.proves("INT-01")
def test_a_fresh_connection_finds_the_store_in_wal_mode(database: Path) -> None:
    with Outlast(database) as app:
        app.enqueue("work")
    assert foreign_rows(database, "PRAGMA journal_mode") == [["wal"]]


@pytest.mark.proves("INT-02")
def test_a_store_found_in_another_journal_mode_is_put_back_with_a_warning(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="t")
    assert foreign_rows(database, "PRAGMA journal_mode = DELETE") == [["delete"]]
    with caplog.at_level(logging.WARNING, "outlast"), Outlast(database) as app:
        assert app.get("t").status == "pending"
        assert foreign_rows(database, "PRAGMA journal_mode") == [["wal"]]
    assert "was delete; putting it back to wal" in caplog.text


FULL, NORMAL = 2, 1


@pytest.mark.proves("INT-03")
@pytest.mark.parametrize(
    ("settings", "level"), [(Settings(), FULL), (Settings(synchronous="normal"), NORMAL)]
)
def test_every_commit_is_synced_unless_asked_otherwise(
    database: Path, connections: list[apsw.Connection], settings: Settings, level: int
) -> None:
    with Outlast(database, settings=settings) as app:
        app.enqueue("work")
        assert set(_told_by(connections, "synchronous")) == {level}


def _enqueues_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    for _ in range(20):
        say(app.enqueue("work", "x" * 500).id)
    hear()


@pytest.mark.proves("INT-03")
@pytest.mark.parametrize("tail", [b"", b"\0" * 4120, b"garbage" * 1000], ids=len)
def test_a_torn_end_of_the_log_costs_nothing_that_was_acknowledged(
    database: Path, tail: bytes
) -> None:
    """What a power cut leaves of a commit that was never answered, behind those that were."""
    with Child(_enqueues_and_waits, database) as child:
        acknowledged = {child.hear() for _ in range(20)}
        child.signal(signal.SIGKILL)
        child.wait()
    with Path(f"{database}-wal").open("ab") as log:
        log.write(tail)
    assert set(foreign_snapshot(database).statuses) == acknowledged
    with Outlast(database) as app:
        app.enqueue("work", id="next")
        assert {task.id for task in app.tasks()} == {*acknowledged, "next"}
    assert_sound(database)


@pytest.mark.proves("INT-04")
def test_foreign_keys_are_on_in_every_connection(
    database: Path, connections: list[apsw.Connection]
) -> None:
    with Outlast(database) as app:
        app.enqueue("work", id="t")
        app.get("t")
        serving = _told_by(connections, "foreign_keys")
        assert len(serving) >= 2, "one that writes and one that reads"
    with closing(Outlast(database)) as looking:
        looking.get("t")
        assert set(serving + _told_by(connections, "foreign_keys")) == {1}


@pytest.mark.proves("CKP-20")
def test_checkpoints_go_with_the_task_they_belong_to(app: Outlast, database: Path) -> None:
    app.enqueue("work", id="gone")
    app.enqueue("work", id="kept", priority=1)
    for lease in app.claim("w", limit=2):
        lease.checkpoint("manual_checkpoint", {"of": lease.task_id})
    app.close()
    kept, gone = app.claim("w", limit=2)
    kept.complete()
    gone.release()
    assert [task.id for task in app.take(1)] == ["gone"]
    owners = "SELECT snapshot_data FROM task_checkpoints"
    assert foreign_rows(database, owners) == [['{"of":"kept"}']]
