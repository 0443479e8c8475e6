"""Freeing what nobody holds: by what is so when it is done, not by what was seen before."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.locks.recovery import Looker, Rows, free_unheld
from outlast.testing import ManualClock
from tests.conformance.driver import PATIENCE
from tests.locks.telling import Told
from tests.recovery.stage import by_hand
from tests.store.hand import store_of
from tests.support.children import Child

Events = Callable[[], list[Told]]


@pytest.mark.proves("LCK-11")
def test_a_healer_that_saw_an_expired_lock_does_not_free_it_under_its_next_holder(
    app: Outlast, clock: ManualClock, events: Events
) -> None:
    app.lock("x", ttl=10, holder="first").acquire()
    clock.advance(10)
    store = store_of(app)
    looker = Looker(store.engine.presence, clock.now(), PATIENCE)
    looked = store.engine.read("looking", looker.look)
    assert looked.to_free(clock.now()) == 1
    second = app.lock("x", ttl=10, holder="second")
    assert second.acquire()

    def write(operation: Callable[..., Rows]) -> Rows:
        return store.tasks._access.write("heal", operation)

    assert free_unheld(looker, looked, write) == 0
    second.check()
    assert events() == [("lock.expired", "x", "first")]


@pytest.mark.proves("LCK-11")
def test_a_renewal_that_comes_before_the_healer_writes_wins(
    app: Outlast, clock: ManualClock
) -> None:
    lock = app.lock("x", ttl=10)
    lock.acquire()
    store, later = store_of(app), ManualClock()
    later.advance(10)
    looker = Looker(store.engine.presence, later.now(), PATIENCE)
    looked = store.engine.read("looking", looker.look)
    clock.advance(9)
    assert lock.extend(10)
    freed = free_unheld(looker, looked, lambda free: store.tasks._access.write("heal", free))
    assert freed == 0
    lock.check()


def _at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    start = threading.Barrier(len(calls))

    def begin(call: Callable[[], Any]) -> Any:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(begin, calls))


@pytest.mark.proves("LCK-11", "LCK-08")
def test_when_a_lock_runs_out_many_ask_and_heal_at_once_and_one_has_it(
    app: Outlast, clock: ManualClock, events: Events
) -> None:
    for turn in range(5):
        app.lock("x", ttl=10, holder=f"last-{turn}").acquire()
        clock.advance(10)
        wishes = [app.lock("x", ttl=5) for _ in range(5)]
        won = _at_once(
            [*(lock.acquire for lock in wishes), app.heal, app.heal, lambda: app.claim("w")]
        )
        assert sorted(won[:5]) == [False] * 4 + [True]
        (winner,) = (lock for lock in wishes if lock.token is not None)
        winner.check()
        assert winner.release()
    assert events() == [("lock.expired", "x", f"last-{turn}") for turn in range(5)]


@pytest.mark.proves("LCK-16")
def test_many_locks_are_freed_by_several_transactions_and_all_are_counted(
    app: Outlast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants to write in between is let in."""
    monkeypatch.setattr(locks, "FREED_AT_ONCE", 3)
    for number in range(8):
        app.lock(f"l{number}", ttl=10).acquire()
    clock.advance(10)
    freed_at_once: list[int] = []
    free = Looker.free

    def counting(self: Looker, *args: Any) -> Rows:
        freed = free(self, *args)
        freed_at_once.append(len(freed))
        return freed

    monkeypatch.setattr(Looker, "free", counting)
    assert app.heal().locks_cleaned == 8
    assert freed_at_once == [3, 3, 2]
    assert app.locks() == []


@pytest.mark.proves("RPT-15")
def test_locks_of_one_that_was_off_the_list_before_are_counted_too(
    app: Outlast, database: Path
) -> None:
    app.enqueue("work")
    app.close()
    with Child(_holds_task_and_lock, database) as child:
        child.hear()
        child.kill()
    by_hand(database, "UPDATE workers SET state = 'dead', ended_at = 1 WHERE name = 'victim'")
    report = app.recover()
    assert (report.tasks_put_back, report.locks_freed) == (1, 1)


def _holds_task_and_lock(path: str) -> None:
    from outlast import Outlast
    from tests.support.childside import hear, say

    app = Outlast(path)
    app.lock("x", holder="victim").acquire()
    say(len(app.claim("victim", lease="1h")))
    hear()
