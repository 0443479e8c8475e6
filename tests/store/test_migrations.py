"""Old files, newer files, edited history: what opening makes of them."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast import Outlast, SchemaError, SchemaNewer
from outlast.domain import codec
from outlast.store.sqlite import migrate
from tests.store.golden import SCHEMA, apply_migrations, schema_text
from tests.store.hand import Hand

MIGRATIONS = migrate.all_migrations()
NEWEST = MIGRATIONS[-1].number
OLDER = range(1, NEWEST)

Make = Callable[..., Outlast]


def old_store(path: Path, version: int) -> None:
    """A file as an older library left it, with a task in it."""
    connection = apsw.Connection(str(path))
    apply_migrations(connection, version)
    connection.execute(
        "INSERT INTO tasks (id, queue, kind, created_at, state_changed_at, payload_sum)"
        " VALUES ('old', 'default', 'k', 1, 1, ?)",
        (codec.payload_sum("old", "k", None),),
    )
    connection.close()


def state_of(path: Path) -> tuple[str, list[object], int, int]:
    hand = Hand(path)
    rows: list[object] = hand.rows("SELECT * FROM migrations")
    version, application = (hand.connection.pragma(n) for n in ("user_version", "application_id"))
    text = schema_text(hand.connection)
    hand.close()
    assert isinstance(version, int)
    assert isinstance(application, int)
    return text, rows, version, application


def test_the_numbers_of_the_migrations_leave_no_gap() -> None:
    assert [step.number for step in MIGRATIONS] == list(range(1, NEWEST + 1))


@pytest.mark.proves("MIG-01")
def test_the_schema_version_can_be_asked_for_in_three_ways(app: Outlast, hand: Hand) -> None:
    report = app.schema()
    assert report.version == NEWEST
    assert report.migrations == tuple(f"{step.number:04d}_{step.name}" for step in MIGRATIONS)
    assert hand.connection.pragma("user_version") == NEWEST
    asked = "SELECT version FROM schema_version WHERE version = ?"
    assert hand.rows(asked, "0.30.0") == [("0.30.0",)]
    assert hand.rows(asked, f"{NEWEST:04d}") == [(f"{NEWEST:04d}",)]


@pytest.mark.proves("MIG-02")
def test_migrating_twice_changes_nothing(app: Outlast) -> None:
    assert app.migrate() == [f"{step.number:04d}_{step.name}" for step in MIGRATIONS]
    before = state_of(app.path)
    assert app.migrate() == []
    app.open()
    assert app.migrate() == []
    app.close()
    assert state_of(app.path) == before


@pytest.mark.proves("MIG-02", "MIG-06")
@pytest.mark.parametrize("version", OLDER)
def test_an_older_store_is_brought_up_to_date_when_it_is_opened(
    make_app: Make, database: Path, version: int
) -> None:
    old_store(database, version)
    app = make_app(migrate="auto")
    (lease,) = app.claim("w")
    assert lease.task_id == "old"
    assert lease.complete()
    app.close()
    text, rows, number, _ = state_of(database)
    assert text == SCHEMA.read_text(encoding="utf-8"), "an old store must equal a new one"
    assert (len(rows), number) == (NEWEST, NEWEST)


@pytest.mark.proves("MIG-06")
@pytest.mark.parametrize("version", OLDER)
def test_under_manual_an_older_store_waits_for_migrate(
    make_app: Make, database: Path, version: int
) -> None:
    old_store(database, version)
    before = state_of(database)
    app = make_app(migrate="manual")
    for _ in range(2):
        with pytest.raises(SchemaError, match=r'migrate is "manual"; call migrate\(\)'):
            app.claim("w")
    assert state_of(database) == before
    assert app.migrate() == [f"{step.number:04d}_{step.name}" for step in MIGRATIONS[version:]]
    assert [lease.task_id for lease in app.claim("w")] == ["old"]


@pytest.mark.proves("MIG-06")
def test_looking_never_migrates_and_says_what_to_do(make_app: Make, database: Path) -> None:
    old_store(database, NEWEST - 1)
    before = state_of(database)
    app = make_app()
    with pytest.raises(SchemaError, match=r"lacks migration .* call migrate\(\) or open it"):
        app.counts()
    assert state_of(database) == before
    app.open()
    assert app.counts()["pending"] == 1


def test_a_new_store_is_made_under_manual_too(make_app: Make) -> None:
    app = make_app(migrate="manual")
    app.enqueue("k", id="t")
    assert app.schema().version == NEWEST


@pytest.mark.proves("MIG-06")
def test_a_store_of_a_later_library_is_refused_untouched(make_app: Make, database: Path) -> None:
    old_store(database, NEWEST)
    hand = Hand(database)
    hand.run("INSERT INTO migrations VALUES (?, 'from_the_future', 'sha256:00', 1)", NEWEST + 1)
    hand.close()
    before = state_of(database)
    for app in (make_app(), make_app(migrate="manual")):
        for refused in (app.open, app.counts, app.migrate):
            with pytest.raises(SchemaNewer, match=f"version {NEWEST + 1} .* upgrade Outlast"):
                refused()
    assert state_of(database) == before


@pytest.mark.proves("MIG-06")
def test_a_store_whose_history_differs_is_refused_untouched(make_app: Make, database: Path) -> None:
    old_store(database, NEWEST)
    hand = Hand(database)
    hand.run("UPDATE migrations SET checksum = 'sha256:00' WHERE number = 2")
    hand.close()
    before = state_of(database)
    app = make_app()
    for refused in (app.open, app.counts, app.migrate):
        with pytest.raises(SchemaError, match="migration 2 of this store differs") as caught:
            refused()
        assert not isinstance(caught.value, SchemaNewer)
    assert state_of(database) == before


def test_what_a_store_of_version_four_knew_of_workers_and_moves_is_kept(
    make_app: Make, database: Path
) -> None:
    """The fifth migration widens both tables; nothing is known of the new columns."""
    old_store(database, 4)
    hand = Hand(database)
    hand.run(
        "INSERT INTO workers (incarnation, name, host, boot_id, pid, pid_started, pid_namespace,"
        " lock_file, lock_inode, state, registered_at, beat_at, beat_mono_ms, ended_at)"
        " VALUES ('i', 'w', 'h', 'b', 1, 1, 'n', 'f', 1, 'left', 1000, 2000, 1, 3000)"
    )
    hand.run(
        "INSERT INTO transitions (task_seq, from_status, to_status, actor, reason, attempt, token,"
        " worker_id, error, at) VALUES (1, 'pending', 'running', 'worker', 'claimed', 1, 1, 'w',"
        " NULL, 1000), (1, 'running', 'pending', 'worker', 'retry', 1, 1, 'w', 'oops', 2000)"
    )
    hand.close()
    app = make_app()
    app.open()
    (worker,) = app.workers()
    assert (worker.name, worker.state, worker.beat_at.timestamp()) == ("w", "left", 2.0)
    assert (worker.beat_task_id, worker.progress, worker.serves, worker.stuck) == (
        None, None, None, ()
    )  # fmt: skip
    claimed, failed = app.history("old")
    assert (claimed.reason, failed.error) == ("claimed", "oops")
    assert (failed.exit_signal, failed.peak_memory_bytes) == (None, None)
    app.heartbeat("w", ["old"])
    assert [one.beat_task_id for one in app.workers()] == ["old", None]
