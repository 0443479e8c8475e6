"""Who calls while a lone caller's statement is under way: other threads, and its own."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from outlast.store.sqlite.pending import DECIDED
from outlast.store.sqlite.short_way import ShortWay

from outlast import (
    AsyncOutlast,
    OutcomeUnknown,
    Outlast,
    StoreError,
    Task,
)
from outlast.store.sqlite import group
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.wal import Flusher
from tests.store.hand import store_of
from tests.store.test_late_comers import PATIENCE_SECONDS, wait_until

CALLS: dict[str, Callable[[Outlast], object]] = {
    "by the same way": lambda app: app.enqueue("work"),
    "in a group": lambda app: app.enqueue("work", delay=5),
    "alone": lambda app: app.enqueue_many("work", range(2000)),
    "a flush": lambda app: app.flush_wal("passive"),
}


@pytest.mark.parametrize("somebody_leads", [False, True])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_on_top_of_it_is_refused(
    app: Outlast,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Outlast], object],
    somebody_leads: bool,
) -> None:
    """By a signal's handler: it would be part of a statement that is under way, or wait for another
    thread that waits for that statement."""
    app.open()
    stand = FileGuard.locks_stand
    refused: list[str] = []
    other = threading.Thread(target=lambda: app.enqueue("work", id="other"), daemon=True)

    def called_inside(guard: FileGuard) -> bool:
        if refused:
            return stand(guard)
        if somebody_leads:
            other.start()
            wait_until(lambda: store_of(app)._group.leader is not None)
        with pytest.raises(StoreError) as caught:
            call(app)
        refused.append(str(caught.value))
        return stand(guard)

    with monkeypatch.context() as inside:
        inside.setattr(FileGuard, "locks_stand", called_inside)
        app.enqueue("work", id="below")
        if somebody_leads:
            other.join(PATIENCE_SECONDS)
    assert "inside one of its own operations" in refused[0]
    assert {task.id for task in app.tasks()} == {"below"} | ({"other"} if somebody_leads else set())
    call(app)


def test_those_who_wait_are_not_refused_for_a_call_on_top_of_it(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a call from inside that leads, takes all who wait along, and is refused."""
    app.open()
    store, stand, hold = store_of(app), FileGuard.locks_stand, threading.Event()
    refused: list[bool] = []
    for _ in range(3):
        # So that the usher, who leads for the coroutines, comes late.
        store._background.later(lambda: assert_(hold.wait(PATIENCE_SECONDS)))
    stored: list[Task] = []

    async def many() -> None:
        async with AsyncOutlast(database) as aio:
            stored.extend(await asyncio.gather(*(aio.enqueue("work", n) for n in range(5))))

    crowd = threading.Thread(target=lambda: asyncio.run(many()), daemon=True)

    def called_inside(guard: FileGuard) -> bool:
        if not refused:
            refused.append(True)
            crowd.start()
            wait_until(lambda: len(store._group.shared) == 5)
            with pytest.raises(StoreError, match="inside one of its own"):
                app.enqueue("work")
            hold.set()
        return stand(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", called_inside)
    app.enqueue("work", id="below")
    crowd.join(PATIENCE_SECONDS)
    assert len(stored) == 5


def assert_(is_so: bool) -> None:
    assert is_so


@pytest.mark.parametrize("is_lone", [True, False])
def test_nobody_connects_anew_between_a_commit_and_the_look_that_follows_it(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch, is_lone: bool
) -> None:
    """Guards against a task that is acknowledged and lost: who connects anew makes the guard learn
    the new files, and the look of one who committed into the old ones would find nothing wrong."""
    app.enqueue("work", id="before")
    app.flush_wal("truncate")
    store, look, stand = store_of(app), FileGuard.check_files, FileGuard.locks_stand
    failed = store._database

    def connects_anew() -> None:
        with failed.writer.mutex:
            pass
        store._reconnect(failed)

    other = threading.Thread(target=connects_anew, daemon=True)

    def slow_look(guard: FileGuard) -> None:
        if other.ident and threading.current_thread() is threading.main_thread():
            # Long enough for the other, if nothing keeps it from connecting anew.
            other.join(0.2)
        look(guard)

    def taken_away(guard: FileGuard) -> bool:
        if not other.ident:
            other.start()
            for name in ("-wal", "-shm"):
                Path(f"{database}{name}").unlink()
        return stand(guard)

    monkeypatch.setattr(FileGuard, "check_files", slow_look)
    monkeypatch.setattr(FileGuard, "locks_stand", taken_away)
    with pytest.raises(OutcomeUnknown):
        app.enqueue("work", id="t", delay=None if is_lone else 5)
    other.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("is_struck", [False, True])
def test_who_comes_meanwhile_goes_on_when_it_is_done(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, is_struck: bool
) -> None:
    """However it ends; nobody looks up by itself here."""
    monkeypatch.setattr(group, "LOOK_UP_SECONDS", 10 * PATIENCE_SECONDS)
    app.open()
    inside, goes_on = threading.Event(), threading.Event()
    stand = FileGuard.locks_stand

    def slowly(guard: FileGuard) -> bool:
        if not inside.is_set():
            inside.set()
            assert goes_on.wait(PATIENCE_SECONDS)
            if is_struck:
                raise KeyboardInterrupt
        return stand(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", slowly)
    calls: list[Callable[[], object]] = [
        lambda: _struck(lambda: app.enqueue("work", id="first")),
        lambda: app.enqueue("work", id="follows"),
        lambda: app.enqueue("work", {"large": "x" * 5000}, id="follows too"),
        lambda: app.enqueue_many("work", range(2000)),
    ]
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    threads[0].start()
    assert inside.wait(PATIENCE_SECONDS)
    waiting = store_of(app)._group
    threads[1].start()
    wait_until(lambda: waiting.leader is not None)
    for thread in threads[2:]:
        thread.start()
    wait_until(lambda: len(waiting.shared) == 1 and len(waiting._alone) == 1)
    goes_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert app.counts()["pending"] == 2002 + (not is_struck)


def _struck(call: Callable[[], object]) -> None:
    with suppress(KeyboardInterrupt):
        call()


def test_closing_from_inside_is_refused_to_the_end(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a signal's handler, where the commit is done and its flush is called for."""
    app.open()
    refused: list[str] = []

    def close_inside(flusher: Flusher, log_size: object) -> None:
        with pytest.raises(StoreError) as caught:
            app.close()
        refused.append(str(caught.value))

    with monkeypatch.context() as inside:
        inside.setattr(Flusher, "look_at", close_inside)
        inside.setattr(store_of(app)._flusher, "quiet_pages", ())
        app.enqueue("work")
    assert len(refused) == 1
    assert "inside one of its own operations" in refused[0]


def test_a_fork_on_top_of_it_is_not_taken_for_one_between_operations(app: Outlast) -> None:
    """The engine knows of no transaction while a statement is one by itself."""
    app.open()
    writer = store_of(app)._database.writer
    asked: list[bool] = []
    with pytest.MonkeyPatch.context() as inside:
        stand = FileGuard.locks_stand

        def fork_here(guard: FileGuard) -> bool:
            asked.append(writer.quiesce(0))
            return stand(guard)

        inside.setattr(FileGuard, "locks_stand", fork_here)
        app.enqueue("work")
    assert asked == [False]
    assert writer.quiesce(0)
    writer.resume()


def test_who_comes_when_others_wait_takes_them_along(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against lone callers who slip past those that wait while nobody leads yet."""
    app.open()
    store = store_of(app)
    monkeypatch.setattr(ShortWay, "_commits", lambda *_: pytest.fail("it went past"))
    waiting = store._submit("waiting", lambda tx: tx.value("status_of", {"id": "t"}))
    assert store._group.enter(waiting)
    app.enqueue("work", id="t")
    assert waiting.stage == DECIDED
