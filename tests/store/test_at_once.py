"""A lone caller's only statement is a transaction by itself, and as well guarded as any other."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from outlast import (
    AsyncOutlast,
    InvalidInput,
    OutcomeUnknown,
    Outlast,
    SecondSqliteCopy,
    StoreError,
    StoreReplaced,
    Task,
)
from outlast.store.sqlite import group
from outlast.store.sqlite.flush import Flusher
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.guard import FileGuard
from outlast.store.sqlite.pending import DECIDED
from outlast.store.sqlite.short_way import ShortWay
from outlast.store.sqlite.writer import Writer
from tests.store.hand import Hand, store_of
from tests.store.test_late_comers import PATIENCE_SECONDS, wait_until
from tests.store.trace import Trace


def test_a_lone_enqueue_is_one_statement(trace: Trace, app: Outlast) -> None:
    """Not BEGIN, INSERT and COMMIT: each of them is a round of the interpreter's lock."""
    app.open()
    with trace.listening() as ran:
        app.enqueue("work", {"n": 1})
    (only,) = ran
    assert "INSERT INTO tasks" in only.text


@pytest.mark.parametrize(
    "more",
    [
        {"group": "g"},
        {"idempotency_key": "k"},
        {"delay": 5},
        {"payload": "x" * 3000},
        {"also": [("INSERT INTO notes VALUES (1)", ())]},
    ],
)
def test_what_needs_more_statements_has_them_in_one_transaction(
    app: Outlast, hand: Hand, more: dict[str, object]
) -> None:
    hand.run("CREATE TABLE notes (n)")
    writer = store_of(app)._database.writer
    before = writer.commits
    task = app.enqueue("work", **more)  # type: ignore[arg-type]
    assert writer.commits == before + 1
    assert app.get(task.id) == task


def test_nothing_is_sent_when_the_locks_are_gone(app: Outlast, database: Path) -> None:
    """The second copy of SQLite has dropped ours; the engine itself would commit all the same."""
    app.enqueue("work", id="before")
    second_copy = sqlite3.connect(database)
    second_copy.execute("SELECT count(*) FROM tasks").fetchall()
    second_copy.close()
    with pytest.raises(SecondSqliteCopy):
        app.enqueue("work", id="refused")
    assert app.enqueue("work", id="after").id == "after"
    assert sorted(task.id for task in app.tasks()) == ["after", "before"]


def test_the_locks_are_asked_for_before_anything_is_sent(
    app: Outlast, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside the transaction: the log has not grown, and nobody else sees the task yet."""
    app.enqueue("work", id="before")
    log = Path(f"{database}-wal")
    seen: list[tuple[bool, int]] = []
    real = FileGuard.locks_stand

    def asked(guard: FileGuard) -> bool:
        connection = store_of(app)._database.writer._connection
        seen.append((connection.in_transaction, log.stat().st_size))
        return real(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", asked)
    size = log.stat().st_size
    app.enqueue("work", id="asked")
    assert [grown for _, grown in seen] == [size]


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
    store_of(app)._database.guard.recent_until = float("inf")
    database.rename(database.with_name("moved.db"))
    with pytest.raises(OutcomeUnknown) as caught:
        app.enqueue("work", id="t")
    assert caught.value.task_ids == ("t",)


def test_a_look_is_recent_for_a_millisecond(app: Outlast) -> None:
    app.open()
    guard = store_of(app)._database.guard
    # As if its folders had been at rest for long enough for the kernel's word to be asked for.
    guard._watch.listen()
    guard._trusted_until = float("inf")
    before = time.monotonic()
    guard.check_files()
    assert before < guard.recent_until < time.monotonic() + 0.001
    guard.arm()
    assert guard.recent_until == 0


def test_after_that_nothing_is_stored_where_files_were_replaced(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work", id="before")
    store_of(app)._database.guard.recent_until = 0.0
    log = Path(f"{database}-wal")
    before = log.read_bytes()
    database.rename(database.with_name("moved.db"))
    with pytest.raises(StoreReplaced):
        app.enqueue("work", id="t")
    assert log.read_bytes() == before


def test_a_twin_is_refused_in_words(app: Outlast) -> None:
    app.enqueue("work", id="t")
    with pytest.raises(InvalidInput, match="'t' exists already"):
        app.enqueue("work", id="t")


def test_it_is_not_taken_for_durable_inside_a_transaction_somebody_left_open(
    app: Outlast, hand: Hand
) -> None:
    """Then the statement is no transaction by itself, and was only seemingly stored."""
    app.open()
    connection = store_of(app)._database.writer._connection
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO meta VALUES ('left', 'behind')")
    app.enqueue("work", id="t")
    assert not connection.in_transaction
    assert hand.value("SELECT count(*) FROM tasks WHERE id = 't'") == 1
    assert hand.value("SELECT count(*) FROM meta WHERE key = 'left'") == 0


@pytest.mark.parametrize("is_sent", [False, True])
def test_an_error_is_doubt_once_the_commit_was_sent_and_a_second_try_before(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    app.open()
    writer = store_of(app)._database.writer
    tries: list[str] = []

    def broken(text: str, values: object) -> None:
        tries.append(text)
        group = writer._group
        assert group is not None
        group.commit_sent = is_sent
        raise apsw.IOError("the disk hiccuped")

    monkeypatch.setattr(writer.tx, "execute", _once(broken, writer))
    if is_sent:
        with pytest.raises(OutcomeUnknown):
            app.enqueue("work", id="t")
    else:
        app.enqueue("work", id="t")
    assert len(tries) == 1
    assert len(app.tasks()) == (0 if is_sent else 1)


def _once(broken: Callable[[str, object], None], writer: Writer) -> Callable[[str, object], object]:
    real = writer.tx.execute
    calls = iter([broken])

    def execute(text: str, values: object) -> object:
        return next(calls, real)(text, values)  # type: ignore[arg-type]

    return execute


def test_an_interruption_inside_stores_nothing_and_is_raised(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal's handler may run where the engine asks whether it may commit."""
    app.open()

    def struck(guard: FileGuard) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as struck_once:
        struck_once.setattr(FileGuard, "locks_stand", struck)
        with pytest.raises(KeyboardInterrupt):
            app.enqueue("work", id="lost")
    assert not store_of(app)._database.writer.is_storing
    app.enqueue("work", id="next")
    assert [task.id for task in app.tasks()] == ["next"]


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


@pytest.mark.parametrize("is_lone", [True, False])
def test_one_who_is_struck_where_it_leaves_the_gate_does_not_keep_it(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, is_lone: bool
) -> None:
    """Guards against an idle process that others wait for."""
    app.open()
    gate = store_of(app)._gate
    real, strikes = WriteGate.leave, iter([KeyboardInterrupt])

    def struck(left: WriteGate) -> None:
        for strike in strikes:
            raise strike
        real(left)

    gate.alone_until = 0.0
    monkeypatch.setattr(WriteGate, "leave", struck)
    with pytest.raises(KeyboardInterrupt):
        app.enqueue("work", delay=None if is_lone else 5)
    assert not gate.is_ours
    app.enqueue("work")


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


def test_a_flush_that_is_struck_leaves_no_transaction(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue("work")
    writer = store_of(app)._database.writer
    real, strikes = writer._roll_back, iter([KeyboardInterrupt])

    def struck() -> None:
        for strike in strikes:
            raise strike
        real()

    monkeypatch.setattr(writer, "_roll_back", struck)
    with pytest.raises(KeyboardInterrupt):
        app.flush_wal("passive")
    assert not writer._connection.in_transaction


def test_the_descriptor_count_does_not_grow(app: Outlast) -> None:
    app.enqueue("work")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        app.enqueue("work")
    assert len(os.listdir("/proc/self/fd")) <= before + 1, "the watch of the folders may come late"


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
