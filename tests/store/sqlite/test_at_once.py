"""A batch that is one statement is a transaction by itself, and as well guarded as any other."""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import InvalidInput, OutcomeUnknown, Outlast, SecondSqliteCopy
from outlast.host import file_locks
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.writer import Writer
from outlast.store.transaction import Row
from tests.store.hand import Hand, engine_of
from tests.store.sqlite.test_contention import queued_behind_a_lock
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
    writer = engine_of(app)._database.writer
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
        connection = engine_of(app)._database.writer.connection
        seen.append((connection.in_transaction, log.stat().st_size))
        return real(guard)

    monkeypatch.setattr(FileGuard, "locks_stand", asked)
    size = log.stat().st_size
    app.enqueue("work", id="asked")
    assert [grown for _, grown in seen] == [size]


def test_a_twin_is_refused_in_words(app: Outlast) -> None:
    app.enqueue("work", id="t")
    with pytest.raises(InvalidInput, match="'t' exists already"):
        app.enqueue("work", id="t")


def test_it_is_not_taken_for_durable_inside_a_transaction_somebody_left_open(
    app: Outlast, hand: Hand
) -> None:
    """Then the statement is no transaction by itself, and was only seemingly stored."""
    app.open()
    connection = engine_of(app)._database.writer.connection
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
    writer = engine_of(app)._database.writer
    tries: list[str] = []

    def broken(name: str, row: Row) -> int:
        tries.append(name)
        writer._batch.commit_sent = is_sent
        raise apsw.IOError("the disk hiccuped")

    monkeypatch.setattr(writer.tx, "run_row", _once(broken, writer))
    if is_sent:
        with pytest.raises(OutcomeUnknown):
            app.enqueue("work", id="t")
    else:
        app.enqueue("work", id="t")
    assert len(tries) == 1
    assert len(app.tasks()) == (0 if is_sent else 1)


def _once(broken: Callable[[str, Row], int], writer: Writer) -> Callable[[str, Row], int]:
    real = writer.tx.run_row
    calls = iter([broken])

    def run_row(name: str, row: Row) -> int:
        return next(calls, real)(name, row)

    return run_row


def test_callers_that_come_together_are_one_statement_as_well(
    trace: Trace, app: Outlast, database: Path
) -> None:
    def stored(n: int) -> str:
        return app.enqueue("work", id=f"{n}").id

    acts: list[Callable[[], Any]] = [partial(stored, n) for n in range(9)]
    app.open()
    with trace.listening() as ran, queued_behind_a_lock(app, database, acts) as answers:
        pass
    texts = [one.text for one in ran if "tasks" in one.text]
    assert answers == [f"{n}" for n in range(9)]
    assert len(texts) == 3, "the first one's, tried again for a busy store; one for the others"
    assert sorted(task.id for task in app.tasks()) == answers


def _id_of_new(app: Outlast, task_id: str) -> str:
    return app.enqueue("work", id=task_id).id


def test_a_twin_among_those_who_come_together_is_refused_alone(
    app: Outlast, database: Path
) -> None:
    def twin(n: int) -> object:
        try:
            return app.enqueue("work", id=f"{n % 4}").id
        except InvalidInput as error:
            return str(error)

    acts: list[Callable[[], Any]] = [partial(twin, n) for n in range(6)]
    app.open()
    with queued_behind_a_lock(app, database, acts) as answers:
        pass
    assert answers[:4] == ["0", "1", "2", "3"]
    assert all("exists already" in answer for answer in answers[4:])


def test_an_error_inside_the_hook_stores_nothing_and_is_told(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer's, or one for want of memory, where SQLite asks whether it may commit."""
    app.open()

    def struck(guard: FileGuard) -> bool:
        raise MemoryError

    with monkeypatch.context() as struck_once:
        struck_once.setattr(FileGuard, "locks_stand", struck)
        with pytest.raises(MemoryError):
            app.enqueue("work", id="lost")
    app.enqueue("work", id="next")
    assert [task.id for task in app.tasks()] == ["next"]


@pytest.mark.parametrize("is_lone", [True, False])
def test_the_gate_is_left_whatever_ends_a_commit(
    app: Outlast, monkeypatch: pytest.MonkeyPatch, is_lone: bool
) -> None:
    """Guards against an idle process that others wait for."""
    app.open()
    path = engine_of(app)._folder.gate

    def struck(guard: FileGuard) -> bool:
        raise MemoryError

    with monkeypatch.context() as struck_once:
        struck_once.setattr(FileGuard, "locks_stand", struck)
        with pytest.raises(MemoryError):
            app.enqueue("work", delay=None if is_lone else 5)
    assert file_locks.flock_holders(path) == []
    app.enqueue("work")


def test_the_descriptor_count_does_not_grow(app: Outlast) -> None:
    app.enqueue("work")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        app.enqueue("work")
    assert len(os.listdir("/proc/self/fd")) == before
