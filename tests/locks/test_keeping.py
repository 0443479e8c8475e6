"""The renewing thread and the edges of a block: foreign errors, closing, interrupts, forks."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import AsyncOutlast, LockLost, NamedLock, Outlast, Settings
from outlast.store.ops.locks.locks import Locks
from outlast.testing import ManualClock
from tests.locks.test_blocks import LONG_SECONDS, left_seconds, wait_until


def keepers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "outlast-locks"]


def test_a_renewal_that_meets_a_foreign_error_is_tried_again_too(
    make_app: Callable[..., Outlast], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was, it must not be the end of all renewing."""
    app = make_app(heartbeat_interval_seconds=0.02)
    calls: list[int] = []
    extend = Locks.extend

    def fails_once(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("too many open files")
        return extend(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Locks, "extend", fails_once)
    with app.lock(ttl=100) as grant:
        clock.advance(50)
        wait_until(lambda: left_seconds(app) == 100)
        grant.check()


def test_a_block_that_is_entered_while_its_object_is_closed_leaves_no_thread_behind(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock was handed out, and the store is closed before its renewal begins."""
    app = make_app(heartbeat_interval_seconds=0.02)
    renew = NamedLock.renew_by_itself

    def closes_meanwhile(self: NamedLock) -> None:
        app.close()
        renew(self)

    monkeypatch.setattr(NamedLock, "renew_by_itself", closes_meanwhile)
    before = set(keepers())
    with pytest.raises(LockLost, match="was closed"), app.lock("x"):
        pass
    wait_until(lambda: set(keepers()) <= before)
    assert app.locks() == []


def test_one_who_is_interrupted_at_the_door_of_a_block_holds_nothing(
    app: Outlast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: NamedLock) -> None:
        raise KeyboardInterrupt

    lock = app.lock("x")
    with monkeypatch.context() as patch:
        patch.setattr(NamedLock, "renew_by_itself", interrupted)
        with pytest.raises(KeyboardInterrupt), lock:
            pytest.fail("nobody gets in")
    assert app.current_lock("x") is None
    with lock:
        lock.check()


def test_a_renewal_that_is_cancelled_leaves_the_lock_with_its_holder(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cancelled call was handed is given back; this was held before it."""
    acquire = Locks.acquire
    entered, may_go_on = threading.Event(), threading.Event()

    def waits(*args: object, **kwargs: object) -> object:
        entered.set()
        assert may_go_on.wait(LONG_SECONDS)
        return acquire(*args, **kwargs)  # type: ignore[arg-type]

    async def act() -> None:
        async with AsyncOutlast(database) as app:
            lock = app.lock("x", ttl=100)
            assert await lock.acquire()
            with monkeypatch.context() as patch:
                patch.setattr(Locks, "acquire", waits)
                renewing = asyncio.create_task(lock.acquire())
                while not entered.is_set():
                    await asyncio.sleep(0.005)
                renewing.cancel()
                may_go_on.set()
                with pytest.raises(asyncio.CancelledError):
                    await renewing
            await lock.check()
            assert await lock.release()

    asyncio.run(asyncio.wait_for(act(), LONG_SECONDS))


def in_a_fork(act: Callable[[], object]) -> bytes:
    """What a forked child answers; it is ended if it never does."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = repr(act())
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.set_blocking(read, False)
    deadline = time.monotonic() + LONG_SECONDS
    said_bytes = b""
    while not said_bytes and time.monotonic() < deadline:
        try:
            said_bytes = os.read(read, 1000)
        except BlockingIOError:
            time.sleep(0.005)
    if not said_bytes:
        os.kill(pid, 9)
    os.close(read)
    os.waitpid(pid, 0)
    return said_bytes


def test_a_forked_child_that_uses_an_inherited_lock_anew_leaves_the_block_in_peace(
    database: Path,
) -> None:
    settings = Settings(detection_interval_seconds=0)
    with Outlast(database, settings=settings) as app, app.lock("x") as grant:

        def leaves() -> object:
            answers = [grant.acquire()]
            with pytest.raises(LockLost):
                grant.__exit__(None, None, None)
            return answers

        assert in_a_fork(leaves) == b"[False]"
        grant.check()


def test_a_forked_child_waits_for_no_mutex_of_its_parent(database: Path) -> None:
    """Another thread of the parent may have been inside the object when it forked."""
    with Outlast(database, settings=Settings(detection_interval_seconds=0)) as app:
        lock = app.lock("x")
        assert lock.acquire()
        with lock._mutex:
            assert in_a_fork(lock.release) == b"False"
        lock.check()
