"""An opening that fails before its run is on record, and leaves while another serves."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, RecoveryFailed, StoreError
from outlast.clock import Instant
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.store import Store
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
    close = Store.close

    def cannot_be_written(store: Store, *given: Any) -> None:
        raise StoreError("the disk is full")

    def leave_late(store: Store, now: Instant) -> None:
        monkeypatch.setattr(Store, "close", close)
        others.append(Child(_serves, database).__enter__())
        assert others[0].hear() == "serving"
        close(store, now)

    with monkeypatch.context() as failing:
        failing.setattr(RecoveryRuns, "end", cannot_be_written)
        monkeypatch.setattr(Store, "close", leave_late)
        with pytest.raises(RecoveryFailed):
            Outlast(database).open()
    (other,) = others
    ended = "SELECT pid, session_ended_at IS NULL FROM recovery_runs ORDER BY id DESC LIMIT 1"
    assert [tuple(row) for row in rows(database, ended)] == [(other.pid, 1)]
    other.kill()
