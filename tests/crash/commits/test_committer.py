"""Leaders that are struck down, forked under, or closed upon: every follower gets its answer."""

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, LeaseLost, OutcomeUnknown, Outlast, StoreError
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

PATIENCE_SECONDS = 30
STORM_SECONDS = 2.0
FOLLOWERS = 8
COROUTINES = 4


class Alarm(Exception):
    """What a handler of timeouts raises."""


class Told:
    """What the callers were told: stored, unknown, or something that should not have been."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.unknown: list[str] = []
        self.surprises: list[str] = []

    def hear(self, task_id: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except (KeyboardInterrupt, Alarm):
            raise
        except BaseException as error:
            self._raised(task_id, error)
        else:
            self.stored.append(task_id)

    async def hear_soon(self, task_id: str, call: Any) -> None:
        try:
            await call
        except Exception as error:
            self._raised(task_id, error)
        else:
            self.stored.append(task_id)

    def _raised(self, task_id: str, error: BaseException) -> None:
        if isinstance(error, OutcomeUnknown):
            self.unknown.append(task_id)
        else:
            self.surprises.append(f"{task_id}: {error!r}")


def noted(task_id: str, is_noted: bool) -> list[tuple[str, tuple[str]]]:
    """A row of the caller's own, which makes the operation a lone one and tells if it ran twice."""
    return [("INSERT INTO ledger VALUES (?)", (task_id,))] if is_noted else []


def follow(app: Outlast, stop: threading.Event, told: Told, name: str) -> None:
    n = 0
    while not stop.is_set():
        n += 1
        task_id = f"{name}-{n}"
        also = noted(task_id, n % 5 == 0)
        told.hear(task_id, partial(app.enqueue, "work", id=task_id, also=also))
        if n % 3 == 0:
            settled(app, told, name)


def settled(app: Outlast, told: Told, name: str) -> None:
    try:
        for lease in app.claim(name):
            lease.complete(name)
    except (OutcomeUnknown, LeaseLost):
        return
    except Exception as error:
        told.surprises.append(f"{name}: {error!r}")


async def follow_all(path: Path, stop: threading.Event, told: Told) -> None:
    async def one(aio: AsyncOutlast, name: str) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            task_id = f"{name}-{n}"
            also = noted(task_id, n % 7 == 0)
            await told.hear_soon(task_id, aio.enqueue("work", id=task_id, also=also))

    async with AsyncOutlast(path) as aio:
        await asyncio.gather(*(one(aio, f"c{k}") for k in range(COROUTINES)))


def strike_while_leading(app: Outlast, told: Told, error: type[BaseException] | None) -> int:
    """Write in this thread, which a signal strikes again and again; how often it did."""
    struck = n = 0

    def handle(number: int, frame: object) -> None:
        nonlocal struck
        struck += 1
        if error is not None:
            raise error
        try:
            app.enqueue("work")
        except StoreError:
            return

    dice, until = random.Random(7), time.monotonic() + STORM_SECONDS
    signal.signal(signal.SIGALRM, handle)
    while time.monotonic() < until:
        n += 1
        task_id = f"m-{n}"
        also = noted(task_id, n % 2 == 0)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.00005, 0.004))
                told.hear(task_id, partial(app.enqueue, "work", id=task_id, also=also))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, Alarm):
            continue
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return struck


def _leads_under_fire(path: str, kind: str) -> None:
    import asyncio
    import os
    import threading
    import time
    from pathlib import Path

    from outlast import Outlast
    from tests.crash.commits.test_committer import (
        FOLLOWERS,
        PATIENCE_SECONDS,
        Alarm,
        Told,
        follow,
        follow_all,
        strike_while_leading,
    )
    from tests.support.childside import say

    app, told, stop = Outlast(path).open(), Told(), threading.Event()
    threads = [
        threading.Thread(target=follow, args=(app, stop, told, f"f{n}"), daemon=True)
        for n in range(FOLLOWERS)
    ]
    coroutines = follow_all(Path(path), stop, told)
    threads.append(threading.Thread(target=asyncio.run, args=(coroutines,), daemon=True))
    for thread in threads:
        thread.start()
    errors = {"KeyboardInterrupt": KeyboardInterrupt, "Alarm": Alarm, "nested": None}
    # On a busy machine the loop takes its time to begin.
    patience_ends_at = time.monotonic() + PATIENCE_SECONDS
    while not {one[0] for one in list(told.stored)} >= set("fc"):
        assert time.monotonic() < patience_ends_at
        time.sleep(0.01)
    struck = strike_while_leading(app, told, errors[kind])
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    say([thread.name for thread in threads if thread.is_alive()])
    say([struck, told.stored, told.unknown, told.surprises])
    app.close()
    os._exit(0)


@pytest.fixture
def with_ledger(database: Path) -> Path:
    with Outlast(database):
        pass
    foreign_rows(database, "CREATE TABLE ledger (task_id TEXT)")
    return database


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "Alarm", "nested"])
def test_whatever_strikes_a_leader_each_follower_is_answered_truthfully(
    with_ledger: Path, kind: str
) -> None:
    """Signals at random moments; a nested one calls the store from its handler."""
    with Child(_leads_under_fire, with_ledger, kind) as child:
        assert child.hear() == [], "nobody may hang"
        struck, stored, unknown, surprises = child.hear()
        assert child.wait() == 0, child.error()
    assert surprises == []
    assert struck > 20, "the signals must have met the operations"
    assert {one[0] for one in stored} >= set("fc"), "threads and coroutines"
    found = foreign_statuses(with_ledger)
    assert set(stored) <= set(found), "what was acknowledged is there"
    assert len(stored) == len(set(stored))
    if kind == "nested":
        assert unknown == []
    assert_noted_once(with_ledger, set(stored))
    assert_sound(with_ledger)


def assert_noted_once(database: Path, stored: set[str]) -> None:
    """A row of the caller's own is there with its task, once, and never without it."""
    ledger = [task_id for (task_id,) in foreign_rows(database, "SELECT task_id FROM ledger")]
    assert len(ledger) == len(set(ledger)), "nothing ran twice"
    assert set(ledger) <= set(foreign_statuses(database))
    assert ledger
    lone = {one for one in stored if one[0] == "m" and int(one.partition("-")[2]) % 2 == 0}
    assert lone <= set(ledger)


def test_closing_amid_groups_answers_each_of_many_threads_and_coroutines(
    with_ledger: Path,
) -> None:
    """Refused or stored: whoever is in a group when the store closes hears which."""
    app, told = Outlast(with_ledger), Told()
    app.open()

    def write(name: str) -> None:
        for n in range(15):
            told.hear(f"{name}-{n}", partial(app.enqueue, "work", id=f"{name}-{n}"))

    async def write_in_coroutines() -> None:
        aio = AsyncOutlast(with_ledger)

        async def one(name: str) -> None:
            for n in range(15):
                task_id = f"{name}-{n}"
                also = noted(task_id, n % 3 == 0)
                await told.hear_soon(task_id, aio.enqueue("work", id=task_id, also=also))

        await asyncio.gather(*(one(f"c{k}") for k in range(COROUTINES)))
        await aio.close()

    threads = [threading.Thread(target=write, args=(f"t{n}",), daemon=True) for n in range(32)]
    loop = threading.Thread(target=lambda: asyncio.run(write_in_coroutines()), daemon=True)
    for thread in [*threads, loop]:
        thread.start()
    closings = 0
    while any(thread.is_alive() for thread in threads):
        app.close()
        closings += 1
        threads[0].join(0.002)
    for thread in [*threads, loop]:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "nobody may hang"
    app.close()
    answers = len(told.stored) + len(told.unknown) + len(told.surprises)
    assert (answers, told.unknown) == ((32 + COROUTINES) * 15, [])
    assert all("closed" in one for one in told.surprises), told.surprises[:3]
    assert closings > 1
    assert set(foreign_statuses(with_ledger)) == set(told.stored)
    assert_sound(with_ledger)
