"""Old files, newer files, files of other builds: what opening makes of them."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from outlast import Outlast, SchemaError, SchemaNewer
from outlast.domain import codec
from outlast.store.sqlite import migrate
from outlast.store.sqlite.side_folder.users_lock import UsersLock
from outlast_lab.record.newer import NEXT
from tests.store.golden import apply_migrations, schema_text
from tests.store.hand import Hand
from tests.support.newer import SHIPPED, know_next

NEWEST = SHIPPED[-1].number

Make = Callable[..., Outlast]


def store_of_today(path: Path) -> None:
    """A file as the migrations that ship leave it, with a task in it."""
    connection = apsw.Connection(str(path))
    apply_migrations(connection)
    connection.execute(
        "INSERT INTO tasks (id, queue, kind, created_at, state_changed_at, payload_sum)"
        " VALUES ('old', 'default', 'k', 1, 1, ?)",
        (codec.payload_sum("old", "k", None),),
    )
    connection.close()


@pytest.fixture
def old_store(database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, and a library that knows one migration more."""
    store_of_today(database)
    know_next(monkeypatch)
    return database


def state_of(path: Path) -> tuple[str, list[object], int, int]:
    hand = Hand(path)
    rows: list[object] = []
    if hand.rows("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"):
        rows = hand.rows("SELECT * FROM migrations")
    version, application = (hand.connection.pragma(n) for n in ("user_version", "application_id"))
    text = schema_text(hand.connection)
    hand.close()
    assert isinstance(version, int)
    assert isinstance(application, int)
    return text, rows, version, application


def test_the_numbers_of_the_migrations_leave_no_gap() -> None:
    assert [step.number for step in SHIPPED] == list(range(1, NEWEST + 1))


@pytest.mark.proves("MIG-01")
def test_the_schema_version_can_be_asked_for_in_three_ways(app: Outlast, hand: Hand) -> None:
    report = app.schema()
    assert report.version == NEWEST
    assert report.migrations == tuple(f"{step.number:04d}_{step.name}" for step in SHIPPED)
    assert hand.connection.pragma("user_version") == NEWEST
    asked = "SELECT version FROM schema_version WHERE version = ?"
    assert hand.rows(asked, "0.30.0") == [("0.30.0",)]
    assert hand.rows(asked, f"{NEWEST:04d}") == [(f"{NEWEST:04d}",)]


@pytest.mark.proves("MIG-02")
def test_migrating_twice_changes_nothing(app: Outlast) -> None:
    assert app.migrate() == [f"{step.number:04d}_{step.name}" for step in SHIPPED]
    before = state_of(app.path)
    assert app.migrate() == []
    app.open()
    assert app.migrate() == []
    app.close()
    assert state_of(app.path) == before


@pytest.mark.proves("MIG-02", "MIG-06")
def test_an_older_store_is_brought_up_to_date_when_it_is_opened(
    make_app: Make, old_store: Path, tmp_path: Path
) -> None:
    app = make_app(migrate="auto")
    (lease,) = app.claim("w")
    assert lease.task_id == "old"
    assert lease.complete()
    app.close()
    Outlast(tmp_path / "new.db").open().close()
    text, rows, number, _ = state_of(old_store)
    assert text == state_of(tmp_path / "new.db")[0], "an old store must equal a new one"
    assert (len(rows), number) == (NEXT.number, NEXT.number)
    hand = Hand(old_store)
    assert hand.rows("SELECT note FROM later") == [("it was there before",)]
    hand.close()


@pytest.mark.proves("MIG-06")
def test_under_manual_an_older_store_waits_for_migrate(make_app: Make, old_store: Path) -> None:
    before = state_of(old_store)
    app = make_app(migrate="manual")
    for _ in range(2):
        with pytest.raises(SchemaError, match=r'migrate is "manual"; call migrate\(\)'):
            app.claim("w")
    assert state_of(old_store) == before
    assert app.migrate() == [f"{NEXT.number:04d}_{NEXT.name}"]
    assert [lease.task_id for lease in app.claim("w")] == ["old"]


@pytest.mark.proves("MIG-06")
def test_looking_never_migrates_and_says_what_to_do(make_app: Make, old_store: Path) -> None:
    before = state_of(old_store)
    app = make_app()
    with pytest.raises(SchemaError, match=r"lacks migration .* call migrate\(\) or open it"):
        app.counts()
    assert state_of(old_store) == before
    app.open()
    assert app.counts()["pending"] == 1


def test_a_new_store_is_made_under_manual_too(make_app: Make) -> None:
    app = make_app(migrate="manual")
    app.enqueue("k", id="t")
    assert app.schema().version == NEWEST


def test_a_migration_that_fails_half_way_leaves_the_file_as_it_was(
    make_app: Make, old_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = NEXT._replace(text=NEXT.text + "CREATE TABLE tasks (again);\n")
    monkeypatch.setattr(migrate, "all_migrations", lambda: (*SHIPPED, broken))
    before = state_of(old_store)
    with pytest.raises(Exception, match="table tasks already exists"):
        make_app().open()
    assert state_of(old_store) == before


@pytest.mark.proves("MIG-06")
def test_a_store_of_a_later_library_is_refused_untouched(make_app: Make, database: Path) -> None:
    store_of_today(database)
    hand = Hand(database)
    hand.run("INSERT INTO migrations VALUES (?, 'from_the_future', 'sha256:00', 1)", NEWEST + 1)
    hand.close()
    before = state_of(database)
    for app in (make_app(), make_app(migrate="manual")):
        for refused in (app.open, app.counts, app.migrate):
            with pytest.raises(SchemaNewer, match=f"version {NEWEST + 1} .* upgrade Outlast"):
                refused()
    assert state_of(database) == before


def test_a_later_library_that_comes_between_preparing_and_sharing_is_found_out(
    make_app: Make, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is nobody's for a moment; what serves it looks once more."""
    store_of_today(database)
    share = UsersLock.share

    def after_another(openers: UsersLock, timeout_seconds: float) -> None:
        hand = Hand(database)
        hand.run("INSERT INTO migrations VALUES (?, 'from_the_future', 'sha256:00', 1)", NEWEST + 1)
        hand.close()
        share(openers, timeout_seconds)

    monkeypatch.setattr(UsersLock, "share", after_another)
    with pytest.raises(SchemaNewer, match="upgrade Outlast"):
        make_app().open()


OTHER_BUILDS = {
    "seven migrations before the first release": (
        "its migration 1 differs",
        [
            "UPDATE migrations SET checksum = 'sha256:00', name = 'tables' WHERE number = 1",
            *(f"INSERT INTO migrations VALUES ({n}, 'm', 'sha256:0{n}', 1)" for n in range(2, 8)),
            "PRAGMA user_version = 7",
        ],
    ),
    "another text of a migration": (
        "its migration 1 differs",
        ["UPDATE migrations SET checksum = 'sha256:00' WHERE number = 1"],
    ),
    "a gap": (
        "it lacks migration 1 and has later ones",
        [
            f"UPDATE migrations SET number = 2, checksum = '{NEXT.checksum}'",
            "PRAGMA user_version = 2",
        ],
    ),
    "no migration on record": (
        "it has tables and no record of migrations",
        ["DELETE FROM migrations"],
    ),
    "no record at all": (
        "it has tables and no record of migrations",
        ["DROP VIEW schema_version", "DROP TABLE migrations"],
    ),
}


@pytest.mark.proves("MIG-06")
@pytest.mark.parametrize("was_served", [False, True])
@pytest.mark.parametrize("build", OTHER_BUILDS)
def test_a_store_of_another_build_is_refused_untouched(
    make_app: Make, database: Path, build: str, was_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, changes = OTHER_BUILDS[build]
    store_of_today(database)
    if was_served:
        make_app().open().close()
    hand = Hand(database)
    for change in changes:
        hand.run(change)
    hand.close()
    if build == "a gap":
        know_next(monkeypatch)
    before, files = state_of(database), database.read_bytes()
    for app in (make_app(), make_app(migrate="manual")):
        for refused in (app.open, app.counts, app.migrate):
            with pytest.raises(SchemaError, match="by another build of Outlast") as caught:
                refused()
            assert not isinstance(caught.value, SchemaNewer)
            assert why in str(caught.value)
            assert "; open it with that build, or choose another path" in str(caught.value)
    assert (state_of(database), database.read_bytes()) == (before, files)
    side_folder = database.with_name(f"{database.name}-outlast")
    assert side_folder.exists() == was_served, "nothing is made beside it"
