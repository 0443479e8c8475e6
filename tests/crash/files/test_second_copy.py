"""The file opened by other means in our process: the kernel drops our locks, and we notice."""

from pathlib import Path

import pytest

from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses


def _is_touched(path: str, how: str, when: str) -> None:
    import os
    import shutil
    import sqlite3
    from collections.abc import Callable

    from outlast import Outlast, StoreError, probes
    from tests.support.childside import say

    def by_sqlite3() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("SELECT count(*) FROM tasks").fetchone()
        connection.close()

    touches: dict[str, Callable[[], object]] = {
        "sqlite3": by_sqlite3,
        "open": lambda: open(path, "rb").close(),
        "copy": lambda: shutil.copy(path, path + ".copy"),
        "index": lambda: os.close(os.open(path + "-shm", os.O_RDONLY)),
    }

    def touch(name: str) -> None:
        if name == when:
            probes.arm(None)
            touches[how]()

    def tried(store: Callable[[], object]) -> None:
        try:
            say(store())
        except StoreError as error:
            say(f"{type(error).__name__}: {error}")

    app = Outlast(path)
    app.enqueue("work", id="first")
    (lease,) = app.claim("w")
    if when == "between":
        touches[how]()
    else:
        probes.arm(touch)
    if when.startswith("settle"):
        tried(lease.complete)
        tried(lease.complete)
    else:
        tried(lambda: app.enqueue("work", id="second").id)
        tried(lambda: app.enqueue("work", id="second").id)
    say(app.get("first").status)


@pytest.mark.parametrize("how", ["sqlite3", "open", "copy", "index"])
@pytest.mark.parametrize("when", ["enqueue.begun", "enqueue.written"])
def test_a_store_touched_inside_a_transaction_stores_nothing_and_goes_on(
    database: Path, how: str, when: str
) -> None:
    with Child(_is_touched, database, how, when) as child:
        refused = child.hear()
        assert refused.startswith("SecondSqliteCopy: ")
        assert "nothing was stored" in refused
        assert child.hear_all() == ["second", "running"], child.error()
    assert foreign_statuses(database) == {"first": "running", "second": "pending"}
    assert_sound(database, left=["first"])


@pytest.mark.parametrize("how", ["sqlite3", "open"])
def test_a_completion_that_lost_its_locks_can_be_repeated(database: Path, how: str) -> None:
    with Child(_is_touched, database, how, "settle.written") as child:
        assert child.hear().startswith("SecondSqliteCopy: ")
        assert child.hear_all() == [True, "completed"], child.error()
    assert foreign_rows(database, "SELECT from_status, to_status FROM transitions") == [
        ["pending", "running"],
        ["running", "completed"],
    ]


@pytest.mark.parametrize("how", ["sqlite3", "open", "copy"])
def test_a_store_touched_between_two_operations_refuses_one_and_goes_on(
    database: Path, how: str
) -> None:
    """The locks that readers need are gone as well, so the next commit must not trust them.

    The standard library's sqlite3 may take itself for the last user, too, and remove the log.
    """
    with Child(_is_touched, database, how, "between") as child:
        assert child.hear().startswith(("SecondSqliteCopy: ", "StoreReplaced: "))
        assert child.wait() == 0, child.error()
    statuses = foreign_statuses(database)
    assert "first" in statuses, "what was acknowledged before is still there"
    assert_sound(database, left=["first"])


def _uses_sqlite3_on_other_files(path: str) -> None:
    import sqlite3

    from outlast import Outlast, probes
    from tests.support.childside import say

    def use_another(name: str) -> None:
        connection = sqlite3.connect(path + ".other")
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.close()

    app = Outlast(path)
    probes.arm(use_another)
    say(app.enqueue("work", id="t").id)
    (lease,) = app.claim("w")
    say(lease.complete())
    app.close()


def test_the_standard_librarys_sqlite3_is_free_to_use_other_files(database: Path) -> None:
    with Child(_uses_sqlite3_on_other_files, database) as child:
        assert child.hear_all() == ["t", True], child.error()
    assert foreign_statuses(database) == {"t": "completed"}
