"""Who sits on the write lock is waited for while that makes sense, then named."""

import signal
import threading
import time
from pathlib import Path

import apsw
import pytest

from outlast import (
    DatabaseError,
    Outlast,
    QueueStalled,
    RecoveryFailed,
    RecoveryReport,
    Settings,
    probes,
)
from outlast.clock import Instant
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.records import RunEnd
from tests.support.children import Child
from tests.support.foreign import foreign_statuses
from tests.support.sitting import sits_in_a_transaction

IMPATIENT = Settings(stall_seconds=0.1, write_timeout_seconds=60)


def _sits_in_a_foreign_transaction(path: str) -> None:
    import sqlite3

    from tests.support.childside import hear, say

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    hear()
    connection.execute("COMMIT")
    say("free")
    hear()


@pytest.mark.parametrize("sit", [sits_in_a_transaction, _sits_in_a_foreign_transaction])
def test_a_writer_stopped_inside_a_transaction_is_named_while_others_wait(
    database: Path, sit: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it came through the write gate, or is a stranger that knows only SQLite's lock.

    Nobody gives up because of it: it may go on any moment.
    """
    with Outlast(database, settings=IMPATIENT) as app:
        with Child(sit, database) as writer:  # type: ignore[arg-type]
            writer.hear()
            writer.signal(signal.SIGSTOP)
            stored = threading.Thread(target=app.enqueue, args=("work",), kwargs={"id": "waiting"})
            stored.start()
            named = f"process {writer.pid} (stopped) has kept others from writing"
            deadline = time.monotonic() + IMPATIENT.write_timeout_seconds / 2
            while named not in caplog.text:
                assert time.monotonic() < deadline, "at once"
                time.sleep(0.005)
            assert stored.is_alive(), "it waits"
            writer.signal(signal.SIGCONT)
            writer.say()
            writer.hear()
            stored.join(timeout=IMPATIENT.write_timeout_seconds)
        assert caplog.text.count(named) == 1
        assert "waiting" in foreign_statuses(database)


def test_who_opens_beside_a_stopped_writer_asks_once_and_is_told(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To put on record that its recovery was stopped it would have to wait once more."""
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=0.5)
    asked: list[RunEnd] = []
    end_run = RecoveryRuns.end

    def counted(store: RecoveryRuns, run_id: int, done: RunEnd, now: Instant) -> RecoveryReport:
        asked.append(done)
        return end_run(store, run_id, done, now)

    monkeypatch.setattr(RecoveryRuns, "end", counted)
    with Child(sits_in_a_transaction, database) as writer:
        writer.hear()
        writer.signal(signal.SIGSTOP)
        with pytest.raises(RecoveryFailed, match=rf"process {writer.pid} \(stopped\)"):
            Outlast(database, settings=settings).open()
    assert len(asked) == 1


@pytest.mark.parametrize("sit", [sits_in_a_transaction, _sits_in_a_foreign_transaction])
def test_a_writer_that_stays_stopped_is_named_when_the_time_is_up(
    database: Path, sit: object
) -> None:
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=0.5)
    with Outlast(database, settings=settings) as app:
        with Child(sit, database) as writer:  # type: ignore[arg-type]
            writer.hear()
            writer.signal(signal.SIGSTOP)
            with pytest.raises(QueueStalled, match=rf"process {writer.pid} \(stopped\)") as caught:
                app.enqueue("work", id="waiting")
            assert caught.value.pid == writer.pid
        assert app.enqueue("work", id="waiting").id == "waiting", "its death set the queue free"


@pytest.mark.parametrize("sit", [sits_in_a_transaction, _sits_in_a_foreign_transaction])
def test_a_writer_that_works_on_is_waited_for(database: Path, sit: object) -> None:
    with Outlast(database, settings=IMPATIENT) as app, Child(sit, database) as writer:  # type: ignore[arg-type]
        writer.hear()
        stored = threading.Thread(target=app.enqueue, args=("work",), kwargs={"id": "waiting"})
        stored.start()
        stored.join(timeout=3 * IMPATIENT.stall_seconds)
        assert stored.is_alive(), "it waits"
        writer.say()
        writer.hear()
        stored.join(timeout=20)
        assert app.get("waiting").status == "pending"


@pytest.mark.parametrize("sit", [sits_in_a_transaction, _sits_in_a_foreign_transaction])
def test_a_writer_that_never_ends_is_named_when_the_time_is_up(database: Path, sit: object) -> None:
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=0.3)
    with Outlast(database, settings=settings) as app:
        with Child(sit, database) as writer:  # type: ignore[arg-type]
            writer.hear()
            with pytest.raises(QueueStalled, match=rf"process {writer.pid} has kept") as caught:
                app.enqueue("work")
            assert caught.value.pid == writer.pid
        assert app.enqueue("work", id="t").id == "t", "its death set the queue free"


def test_an_error_that_waiting_cannot_mend_is_not_tried_again(app: Outlast, database: Path) -> None:
    """Told apart by its code: only BUSY is worth another try."""
    app.open()
    with apsw.Connection(str(database)) as connection:
        connection.execute("CREATE TABLE once (x UNIQUE)")
    connection.close()
    begun: list[str] = []
    probes.arm(begun.append)
    try:
        with pytest.raises(DatabaseError, match="ConstraintError"):
            app.enqueue("work", id="t", also=[("INSERT INTO once VALUES (1), (1)", ())])
    finally:
        probes.arm(None)
    assert begun == ["enqueue.begun", "enqueue.inserted"]
    assert foreign_statuses(database) == {}
    assert app.enqueue("work", id="t").id == "t", "and the transaction is over"
