"""Locks around blocks: renewed as long as they run, given back at their end, known to be lost."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import LockHeld, LockLost, Outlast, Settings, StoreError
from outlast.app import lock_renewal
from outlast.errors import QueueStalled
from outlast.store.sqlite.locking import Locking
from outlast.testing import ManualClock
from tests.store.hand import Hand

LONG_SECONDS = 60.0


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def left_seconds(app: Outlast, name: str = "default") -> float:
    found = app.current_lock(name)
    return 0 if found is None else found.left_ms / 1000


def test_a_lock_is_renewed_as_long_as_its_block_runs(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heartbeat_interval_seconds=0.05)
    with app.lock(ttl=100) as grant:
        token = grant.token
        for _ in range(5):
            clock.advance(90)
            wait_until(lambda: left_seconds(app) == 100)
            grant.check()
        assert grant.token == token
        wait_until(lambda: grant.expires_at == app.locks()[0].expires_at)
    assert app.current_lock() is None


def test_a_lock_taken_by_hand_is_not_renewed_by_itself(
    make_app: Callable[..., Outlast], clock: ManualClock
) -> None:
    app = make_app(heartbeat_interval_seconds=0.02)
    app.lock("by hand", ttl=100).acquire()
    with app.lock("renewed", ttl=100):
        clock.advance(50)
        wait_until(lambda: left_seconds(app, "renewed") == 100)
        assert left_seconds(app, "by hand") == 50


def test_renewing_is_a_sign_of_life(make_app: Callable[..., Outlast], clock: ManualClock) -> None:
    """Where its lock file cannot be asked, a process that holds only a lock is judged by it."""
    app = make_app(heartbeat_interval_seconds=0.05)
    with app.lock(holder="agent"):
        clock.advance(40)
        wait_until(lambda: app.workers()[0].silent_seconds == 0)


def test_a_renewal_that_fails_is_tried_again_and_loses_nothing(
    make_app: Callable[..., Outlast], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(heartbeat_interval_seconds=0.02)
    calls: list[int] = []
    extend = Locking.extend_locks

    def stalls_twice(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) < 3:
            raise QueueStalled(None, 1.0)
        return extend(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Locking, "extend_locks", stalls_twice)
    with app.lock(ttl=100) as grant:
        clock.advance(50)
        wait_until(lambda: left_seconds(app) == 100)
        grant.check()


@pytest.mark.parametrize("how", ["expiry", "force"])
def test_who_lost_its_lock_learns_of_it_from_check_and_at_the_end_of_the_block(
    app: Outlast, clock: ManualClock, how: str
) -> None:
    def meanwhile() -> None:
        if how == "expiry":
            clock.advance(10)
        else:
            app.release_lock("x", by="ada")
        with pytest.raises(LockLost):
            grant.check()
        assert app.lock("x", ttl=1000, holder="next").acquire()

    with pytest.raises(LockLost, match="stop what it guards"), app.lock("x", ttl=10) as grant:
        meanwhile()
    found = app.current_lock("x")
    assert found is not None
    assert found.holder == "next"


def test_an_error_of_the_block_is_not_hidden_by_the_loss_and_gives_the_lock_back(
    app: Outlast, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The loss is not hidden either: it stands in the error's notes, and in the log."""
    with pytest.raises(ZeroDivisionError), app.lock("x", ttl=10):
        raise ZeroDivisionError
    assert app.current_lock("x") is None
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

    def fails_late() -> None:
        clock.advance(10)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught, app.lock("x", ttl=10):
        fails_late()
    (note,) = caught.value.__notes__
    assert note.startswith("lock 'x' is not held any more at the end of its block")
    (said,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert said.getMessage() == note
    assert said.lock == "x"  # type: ignore[attr-defined]


def test_a_renewal_that_finds_the_lock_gone_says_so_once(
    make_app: Callable[..., Outlast], caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(heartbeat_interval_seconds=0.02)

    def lost() -> list[str]:
        return [one for one in caplog.messages if one.startswith("lock x was lost")]

    def meanwhile() -> None:
        app.release_lock("x", by="bob")
        wait_until(lambda: bool(lost()))

    with pytest.raises(LockLost), app.lock("x", holder="ada"):
        meanwhile()
    assert len(lost()) == 1


def test_who_has_waited_is_not_told_to_wait(app: Outlast) -> None:
    app.lock("x", holder="ada").acquire()
    with pytest.raises(LockHeld, match="give wait="), app.lock("x"):
        pytest.fail("two are inside")
    with pytest.raises(LockHeld, match="wait longer") as caught, app.lock("x", wait=0.05):
        pytest.fail("two are inside")
    assert "give wait=" not in str(caught.value)
    app.enqueue("work")
    with pytest.raises(LockHeld, match="wait longer"):
        app.next_with_lock("bob", lock="x", wait=0.05)


def test_a_block_inside_a_block_of_the_same_lock_is_refused_by_one_object_as_by_two(
    app: Outlast,
) -> None:
    lock = app.lock()
    for inner in (lock, app.lock()):
        with lock:
            with pytest.raises(LockHeld), inner:
                pytest.fail("two are inside")
            lock.check()
        assert app.current_lock() is None


@pytest.mark.parametrize("shares_object", [True, False])
def test_threads_exclude_each_other_whether_they_share_the_object_or_not(
    database: Path, shares_object: bool
) -> None:
    inside: list[int] = []
    overlaps: list[int] = []
    entries: list[int | None] = []
    with Outlast(database) as app:
        shared = app.lock(wait=LONG_SECONDS)

        def work() -> None:
            for _ in range(10):
                with shared if shares_object else app.lock(wait=LONG_SECONDS) as grant:
                    inside.append(1)
                    overlaps.extend([1] * (len(inside) - 1))
                    entries.append(grant.token)
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert overlaps == []
    assert len(entries) == 60
    assert entries == sorted(set(entries), key=lambda token: token or 0)


def test_an_object_can_be_used_again_after_its_block(app: Outlast) -> None:
    lock = app.lock()
    tokens = []
    for _ in range(3):
        with lock as grant:
            assert grant is lock
            tokens.append(lock.token)
        assert lock.token is None
    assert len(set(tokens)) == 3


def test_closing_gives_back_the_locks_of_its_own_object_alone(
    make_app: Callable[..., Outlast],
) -> None:
    """The two share store and incarnation."""
    first, second = make_app(), make_app()
    mine, theirs = first.lock("a"), second.lock("b")
    assert mine.acquire()
    assert theirs.acquire()
    first.close()
    assert [found.name for found in second.locks()] == ["b"]
    assert mine.release() is False
    assert mine.extend(10) is False
    with pytest.raises(LockLost, match="was closed"):
        mine.check()
    theirs.check()


def test_the_last_to_leave_a_store_leaves_no_lock_behind(
    make_app: Callable[..., Outlast], hand: Hand
) -> None:
    app = make_app()
    lock = app.lock("a")
    lock.acquire()
    app.close()
    assert hand.rows("SELECT * FROM locks") == []
    assert hand.rows("SELECT kind FROM events WHERE kind LIKE 'lock.%'") == []


def test_a_lock_that_arrives_after_its_object_was_closed_is_given_back(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = make_app(), make_app()
    other.open()
    acquire = Locking.acquire_lock

    def closes_meanwhile(*args: object, **kwargs: object) -> object:
        answer = acquire(*args, **kwargs)  # type: ignore[arg-type]
        app.close()
        return answer

    app.open()
    monkeypatch.setattr(Locking, "acquire_lock", closes_meanwhile)
    with pytest.raises(StoreError, match="was closed while a lock"):
        app.lock("x").acquire()
    assert other.locks() == []


def test_the_thread_that_renews_ends_when_there_is_nothing_to_renew(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_renewal, "IDLE_SECONDS", 0.01)

    def is_there() -> bool:
        return any(thread.name == "outlast-locks" for thread in threading.enumerate())

    with Outlast(database) as app:
        with app.lock():
            assert is_there()
        wait_until(lambda: not is_there())
        with app.lock():
            assert is_there()
    wait_until(lambda: not is_there())


def test_closing_ends_the_thread_that_renews_without_waiting_for_its_idle_time(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_renewal, "IDLE_SECONDS", 10_000.0)
    with Outlast(database) as app, app.lock():
        pass
    wait_until(lambda: all(one.name != "outlast-locks" for one in threading.enumerate()))


def test_a_forked_child_cannot_give_back_its_parents_lock(database: Path) -> None:
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        with app.lock("x") as grant:
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                answers = [grant.release(), grant.extend(10)]
                try:
                    grant.check()
                except LockLost as error:
                    answers.append("forked" in str(error))
                answers.append(app.lock("x").acquire())
                os.write(write, repr(answers).encode())
                os._exit(0)
            os.waitpid(pid, 0)
            assert os.read(read, 1000) == b"[False, False, True, False]"
            grant.check()
        os.close(read)
        os.close(write)
