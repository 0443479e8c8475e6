"""Opening to look and opening to serve: who may change a store, and who has to wait."""

import re
import signal
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import MigrationRefused, Outlast, Settings, StoreBusy, StoreNotFound, StoreUnwritable
from outlast.store.sqlite import migrate
from outlast.store.sqlite.connect import refuse_foreign_file
from outlast_lab.record.newer import NEXT
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows
from tests.support.newer import know_next

pytestmark = pytest.mark.slow


def _claims_and_waits(path: str, worker: str, task_id: str) -> None:
    from outlast import Outlast, Settings
    from tests.support.childside import hear, say

    # One that lives on would take back what another held before the test's own opening does.
    app = Outlast(path, settings=Settings(detection_interval_seconds=0))
    app.enqueue("work", id=task_id)
    (lease,) = app.claim(worker)
    say(lease.task_id)
    if hear() == "complete":
        say(lease.complete())


def _looks(path: str) -> None:
    import logging

    from outlast import Outlast
    from tests.support.childside import say

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(["log", record.getMessage()])

    logging.getLogger("outlast").addHandler(Telling())
    app = Outlast(path)
    say(["counts", app.counts()])
    say(["found", app.get("t").status, len(app.tasks()), len(app.history("t"))])
    say(["why", app.why("t")])
    app.close()


def _files(folder: Path) -> dict[str, str]:
    """Every file's content but the wal-index, which any reader may rebuild."""
    return {
        str(file.relative_to(folder)): sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.endswith("-shm")
    }


def test_opening_to_look_changes_nothing_and_says_that_recovery_is_due(database: Path) -> None:
    with Child(_claims_and_waits, database, "w1", "t") as crashing:
        crashing.hear()
        crashing.kill()
    before = _files(database.parent)
    assert before["work.db-wal"] != sha256(b"").hexdigest(), "there is a log that could be flushed"
    with Child(_looks, database) as looking:
        said = looking.hear_all()
    assert _files(database.parent) == before
    assert ["found", "running", 1, 1] in said
    assert [what for kind, what in said[:1] if kind == "log" and "recovery is due" in what]
    (why,) = [what for kind, *rest in said if kind == "why" for what in rest]
    assert "recovery is due" in why
    assert foreign_rows(database, "SELECT count(*) FROM workers") == [[1]]


def test_opening_to_look_makes_no_side_folder_and_no_store(database: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound):
        Outlast(database).counts()
    assert list(tmp_path.iterdir()) == []
    with Outlast(database) as app:
        app.enqueue("work", id="t")
    side = tmp_path / "work.db-outlast"
    side.rename(tmp_path / "elsewhere")
    with Child(_looks, database) as looking:
        assert ["found", "pending", 1, 0] in looking.hear_all()
    assert not side.exists()


def test_opening_to_serve_recovers_before_it_answers(database: Path) -> None:
    with Child(_claims_and_waits, database, "w1", "t") as crashing:
        crashing.hear()
        crashing.kill()
    with Outlast(database) as app:
        assert app.get("t").status == "pending"
        assert app.get("t").recovery_count == 1


def _opens_on_a_sign(path: str, name: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    say("ready")
    hear()
    say(app.enqueue("work", id=name).id)
    app.close()


@pytest.mark.parametrize("attempt", range(3))
def test_four_processes_may_open_a_new_file_together(database: Path, attempt: int) -> None:
    names = ["a", "b", "c", "d"]
    with ExitStack() as stack:
        children = [stack.enter_context(Child(_opens_on_a_sign, database, name)) for name in names]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say()
        assert [child.hear() for child in children] == names
        assert [child.wait() for child in children] == [0] * 4
    assert sorted(foreign_rows(database, "SELECT id FROM tasks")) == [[name] for name in names]
    numbers = [[step.number] for step in migrate.all_migrations()]
    assert foreign_rows(database, "SELECT number FROM migrations ORDER BY number") == numbers
    assert_sound(database)


@pytest.mark.proves("CLM-09")
def test_a_restart_beside_a_live_worker_takes_back_the_dead_ones_task_only(database: Path) -> None:
    with (
        Child(_claims_and_waits, database, "same name", "alive") as living,
        Child(_claims_and_waits, database, "same name", "dead") as crashing,
    ):
        assert {living.hear(), crashing.hear()} == {"alive", "dead"}
        held = foreign_rows(
            database,
            "SELECT t.id FROM tasks t JOIN workers w"
            f" ON w.seq = t.holder WHERE w.pid = {living.pid}",
        )
        crashing.kill()
        with Outlast(database) as app:
            assert app.counts()["running"] == 1
            assert [[task.id] for task in app.tasks("running")] == held
            assert app.heal().entries_reclaimed == 0
            (lease,) = app.claim("same name", limit=10)
            assert [lease.task_id] not in held
            living.say("complete")
            assert living.hear() is True
            assert lease.complete()
    assert_sound(database)


def _sits_in_its_migration(path: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import hear, say

    def pause(name: str) -> None:
        if name == "migrate.statement":
            probes.arm(None)
            say("alone with the store")
            hear()

    probes.arm(pause)
    app = Outlast(path).open()
    say("open")
    hear()
    app.close()


def test_who_has_the_store_to_itself_is_waited_for_and_named(database: Path) -> None:
    with Child(_sits_in_its_migration, database) as alone:
        alone.hear()
        impatient = Outlast(database, settings=Settings(open_timeout_seconds=0.2))
        with pytest.raises(StoreBusy, match=rf"process {alone.pid}\b"):
            impatient.open()
        alone.say()
        with Outlast(database) as patient:
            assert alone.hear() == "open"
            patient.enqueue("work")
        impatient.open().close()


@pytest.fixture
def newer_outlast(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process knows one migration more than its children."""
    know_next(monkeypatch)


def test_an_opener_that_is_stopped_is_named_while_others_wait_and_when_they_give_up(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the default patience of half a minute nobody would know for so long whom to look at."""
    with Child(_sits_in_its_migration, database) as opener:
        assert opener.hear() == "alone with the store"
        opener.signal(signal.SIGSTOP)
        with pytest.raises(StoreBusy, match=rf"by process {opener.pid} \(stopped\); it did not"):
            Outlast(database, settings=Settings(open_timeout_seconds=2)).open()
    assert caplog.text.count(f"is being changed by process {opener.pid} (stopped)") == 1


class _InterruptedByAMaker:
    """A connection on which another process makes the store after the first question."""

    def __init__(self, connection: apsw.Connection, database: Path) -> None:
        self._connection = connection
        self._database = database

    def pragma(self, name: str) -> Any:
        found = self._connection.pragma(name)
        with Child(_opens_and_leaves, self._database) as maker:
            assert maker.wait() == 0
        return found

    def execute(self, *arguments: Any) -> Any:
        return self._connection.execute(*arguments)


def _opens_and_leaves(path: str) -> None:
    from outlast import Outlast

    Outlast(path).open().close()


def test_a_store_that_is_made_while_we_look_is_not_taken_for_another_programs(
    database: Path,
) -> None:
    """The two questions whether a file is ours are asked of one moment."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.pragma("journal_mode", "wal")
    with closing(apsw.Connection(str(database))) as connection:
        interrupted: Any = _InterruptedByAMaker(connection, database)
        assert refuse_foreign_file(interrupted, database) is False
        assert refuse_foreign_file(connection, database) is True


def _version(database: Path) -> Any:
    return foreign_rows(database, "SELECT max(number) FROM migrations")[0][0]


def _opens_and_waits(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path):
        say("open")
        hear()


@pytest.mark.usefixtures("newer_outlast")
def test_a_store_in_use_is_not_migrated_and_its_user_is_named(database: Path) -> None:
    with Child(_opens_and_waits, database) as user:
        user.hear()
        for use in (Outlast.open, Outlast.migrate):
            with pytest.raises(MigrationRefused, match=rf"in use by process {user.pid}\b"):
                use(Outlast(database))
        assert _version(database) == NEXT.number - 1
        user.say()
        assert user.wait() == 0
    Outlast(database).open().close()
    assert _version(database) == NEXT.number


@pytest.mark.usefixtures("newer_outlast")
def test_a_store_with_a_live_lease_is_not_migrated(database: Path) -> None:
    """Even when nobody can see that it is in use: somebody cleaned up beside it."""
    with Child(_claims_and_waits, database, "w1", "t") as working:
        working.hear()
        (database.parent / "work.db-outlast" / "openers").unlink()
        with pytest.raises(MigrationRefused, match=rf"w1 \(pid {working.pid}\)"):
            Outlast(database).open()
        assert _version(database) == NEXT.number - 1
        working.kill()
        with Outlast(database) as app:
            assert app.get("t").status == "pending"
    assert _version(database) == NEXT.number


def test_a_failed_opening_is_tried_again_by_the_next_call(tmp_path: Path) -> None:
    database = tmp_path / "folder" / "work.db"
    (tmp_path / "folder").write_text("in the way")
    app = Outlast(database)
    with pytest.raises(StoreUnwritable, match=re.escape(str(tmp_path))):
        app.enqueue("work")
    (tmp_path / "folder").unlink()
    with pytest.raises(StoreUnwritable, match=f"there is no folder {re.escape(str(tmp_path))}"):
        app.enqueue("work")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    assert app.enqueue("work", id="t").id == "t"
    app.close()
