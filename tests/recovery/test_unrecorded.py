"""An opening that fails before its run is on record, and leaves while another serves."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, RecoveryFailed, StoreError
from outlast.clock import Instant
from outlast.store.sqlite.store import SqliteStore
from tests.recovery.stage import rows
from tests.support.children import Child


def _serves(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    with Outlast(path):
        say("serving")
        hear()


def test_it_does_not_end_the_session_of_who_has_its_number_now(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number was only looked up; the next who opens gets the same."""
    with Outlast(database) as app:
        app.enqueue("work")
    others: list[Child] = []
    close = SqliteStore.close

    def cannot_be_written(store: SqliteStore, *given: Any) -> None:
        raise StoreError("the disk is full")

    def leave_late(store: SqliteStore, now: Instant) -> None:
        monkeypatch.setattr(SqliteStore, "close", close)
        others.append(Child(_serves, database).__enter__())
        assert others[0].hear() == "serving"
        close(store, now)

    with monkeypatch.context() as failing:
        failing.setattr(SqliteStore, "end_run", cannot_be_written)
        monkeypatch.setattr(SqliteStore, "close", leave_late)
        with pytest.raises(RecoveryFailed):
            Outlast(database).open()
    (other,) = others
    ended = "SELECT pid, session_ended_at IS NULL FROM recovery_runs ORDER BY id DESC LIMIT 1"
    assert [tuple(row) for row in rows(database, ended)] == [(other.pid, 1)]
    other.kill()
