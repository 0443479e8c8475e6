"""Files that are taken away around a lone caller's statement are found before it is answered."""

import threading
import time
from pathlib import Path

import pytest

from outlast import (
    OutcomeUnknown,
    Outlast,
    StoreReplaced,
)
from outlast.store.sqlite.file_guard import FileGuard
from tests.store.hand import engine_of


def test_files_taken_away_under_the_commit_leave_its_outcome_unknown(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against "nothing was stored" where something was, in a file that is elsewhere now."""
    app.enqueue("work", id="before")
    stand = FileGuard.locks_stand
    moved = database.with_name("moved.db")

    def taken_away(guard: FileGuard) -> bool:
        database.rename(moved)
        return stand(guard)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(FileGuard, "locks_stand", taken_away)
        with pytest.raises(OutcomeUnknown) as caught:
            app.enqueue("work", id="t")
    assert caught.value.task_ids == ("t",)


def test_what_happens_to_the_files_after_a_recent_look_is_found_before_the_answer(
    app: Outlast, database: Path
) -> None:
    """Who comes straight back begins without a look of its own: never without one at the end."""
    app.enqueue("work", id="before")
    engine_of(app)._database.guard.recent_until = float("inf")
    database.rename(database.with_name("moved.db"))
    with pytest.raises(OutcomeUnknown) as caught:
        app.enqueue("work", id="t")
    assert caught.value.task_ids == ("t",)


def test_a_look_is_recent_for_a_millisecond(app: Outlast) -> None:
    app.open()
    guard = engine_of(app)._database.guard
    deadline = time.monotonic() + 60
    while guard.recent_until == 0:
        # Only when its folders have been at rest for long enough their times are enough.
        assert time.monotonic() < deadline
        guard.check_files()
    before = time.monotonic()
    guard.check_files()
    assert before < guard.recent_until < time.monotonic() + 0.001
    guard.arm()
    assert guard.recent_until == 0


def test_after_that_nothing_is_stored_where_files_were_replaced(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="before")
    engine_of(app)._database.guard.recent_until = 0.0
    log = Path(f"{database}-wal")
    before = log.read_bytes()
    database.rename(database.with_name("moved.db"))
    with pytest.raises(StoreReplaced):
        app.enqueue("work", id="t")
    assert log.read_bytes() == before


@pytest.mark.parametrize("delay", [None, 5], ids=["one statement", "a transaction"])
def test_nobody_connects_anew_between_a_commit_and_the_look_that_follows_it(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch, delay: int | None
) -> None:
    """Guards against a task that is acknowledged and lost: who connects anew makes the guard learn
    the new files, and the look of one who committed into the old ones would find nothing wrong."""
    app.enqueue("work", id="before")
    app.flush_wal("truncate")
    engine, look, stand = engine_of(app), FileGuard.check_files, FileGuard.locks_stand
    other = threading.Thread(target=engine._reconnect, args=[engine._database])

    def taken_away(guard: FileGuard) -> bool:
        if not other.ident:
            for name in ("-wal", "-shm"):
                Path(f"{database}{name}").unlink()
            other.start()
        return stand(guard)

    def slow_look(guard: FileGuard) -> None:
        if other.ident and threading.current_thread().name == "outlast-commit":
            # Long enough for the other, if nothing keeps it from connecting anew.
            other.join(0.2)
        look(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", taken_away)
    monkeypatch.setattr(FileGuard, "check_files", slow_look)
    with pytest.raises(OutcomeUnknown):
        app.enqueue("work", id="t", delay=delay)
    other.join()
