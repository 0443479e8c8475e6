"""Every verb under fire: exceptions out of signal handlers, and forks, at any moment.

Whatever was acknowledged is there, nothing happened twice, and nobody is stuck.
"""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from outlast import Lease, LeaseLost, OutcomeUnknown, Outlast, Settings
from tests.support.children import Child
from tests.support.foreign import assert_sound, foreign_rows, foreign_statuses

CALLS = 5000
BESIDE = 3
FORKS = 40
pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60
LONGEST_SECONDS = 0.002


class Struck(Exception):
    """What the signal's handler raises."""


class Verbs:
    """All that writes, in turn, as one caller would use it; notes what was acknowledged."""

    def __init__(self, app: Outlast, name: str) -> None:
        self._app = app
        self._name = name
        self._number = 0
        self._held: list[Lease] = []
        self.stored: list[str] = []
        self.completed: list[str] = []

    def in_turn(self) -> Iterator[Callable[[], Any]]:
        return cycle(
            [
                self.enqueue, self.enqueue_with_a_note, self.claim, self.renew, self.checkpoint,
                self.complete, self.enqueue_many, self.prefetch, self.fail, self.claim,
                self.release, self.heartbeat, self.enqueue_and_cancel, self.park, self.pause,
                self.count, self.take, self.flush, self.lock, self.heal,
            ]
        )  # fmt: skip

    def _next_id(self) -> str:
        self._number += 1
        return f"{self._name}-{self._number}"

    def enqueue(self) -> None:
        task_id = self._next_id()
        self._app.enqueue("work", id=task_id)
        self.stored.append(task_id)

    def enqueue_with_a_note(self) -> None:
        task_id = self._next_id()
        self._app.enqueue("work", id=task_id, also=[("INSERT INTO ledger VALUES (?)", (task_id,))])
        self.stored.append(task_id)

    def enqueue_many(self) -> None:
        ids = [self._next_id() for _ in range(3)]
        self._app.enqueue_many("work", range(3), id=ids)
        self.stored += ids

    def claim(self) -> None:
        self._held += self._app.claim(self._name)

    def prefetch(self) -> None:
        self._held += self._app.prefetch(self._name, limit=2)

    def renew(self) -> None:
        for lease in self._held[:1]:
            lease.renew()

    def checkpoint(self) -> None:
        for lease in self._held[:1]:
            lease.checkpoint("tool_executed", 1)

    def complete(self) -> None:
        while self._held:
            lease = self._held.pop()
            lease.complete(self._name)
            self.completed.append(lease.task_id)

    def fail(self) -> None:
        if self._held:
            self._held.pop().fail("no", retry=False)

    def release(self) -> None:
        if self._held:
            self._held.pop().release()

    def heartbeat(self) -> None:
        self._app.heartbeat(self._name)

    def enqueue_and_cancel(self) -> None:
        task_id = self._next_id()
        self._app.enqueue("elsewhere", id=task_id, queue="elsewhere")
        self.stored.append(task_id)
        self._app.cancel(task_id)

    def park(self) -> None:
        task_id = self._next_id()
        self._app.enqueue("elsewhere", id=task_id, queue="elsewhere")
        self.stored.append(task_id)
        self._app.park(task_id)

    def pause(self) -> None:
        self._app.pause("elsewhere")
        self._app.unpause("elsewhere")

    def count(self) -> None:
        self._app.counts()

    def take(self) -> None:
        self._app.take(queue="nowhere")

    def flush(self) -> None:
        self._app.flush_wal("passive")

    def lock(self) -> None:
        # Struck between the lock and its block, Python never ends the block; close() does.
        with self._app.lock(f"lock of {self._next_id()}"):
            pass

    def heal(self) -> None:
        self._app.heal()


def work_beside(verbs: Verbs, stop: threading.Event, surprises: list[str]) -> None:
    acts = verbs.in_turn()
    while not stop.is_set():
        try:
            next(acts)()
        except LeaseLost:
            continue
        except Exception as error:
            surprises.append(repr(error))


def strike_at_random(verbs: Verbs, calls: int, surprises: list[str]) -> int:
    """So many calls, each under a timer; how often the signal came in between."""
    chance, acts, struck = random.Random(11), verbs.in_turn(), 0

    def handle(number: int, frame: object) -> None:
        raise Struck

    signal.signal(signal.SIGALRM, handle)
    for _ in range(calls):
        act = next(acts)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00001, LONGEST_SECONDS))
                act()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Struck:
            struck += 1
        except (OutcomeUnknown, LeaseLost):
            continue
        except Exception as error:
            surprises.append(repr(error))
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return struck


def _is_struck_beside_others(path: str, calls: int) -> None:
    import threading

    from outlast import Outlast
    from tests.crash.forks.test_struck_at_random import (
        BESIDE,
        PATIENCE_SECONDS,
        Verbs,
        strike_at_random,
        work_beside,
    )
    from tests.support.childside import hear, say

    app, stop, surprises = Outlast(path).open(), threading.Event(), list[str]()
    others = [Verbs(app, f"t{n}") for n in range(BESIDE)]
    threads = [
        threading.Thread(target=work_beside, args=(one, stop, surprises), daemon=True)
        for one in others
    ]
    for thread in threads:
        thread.start()
    main = Verbs(app, "m")
    struck = strike_at_random(main, calls, surprises)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    say([one.name for one in threads if one.is_alive()])
    everybody = [main, *others]
    say([struck, surprises[:5]])
    say([one for each in everybody for one in each.stored])
    say([one for each in everybody for one in each.completed])
    hear()
    closing = threading.Thread(target=app.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_SECONDS)
    say(not closing.is_alive())


@pytest.fixture
def with_ledger(database: Path) -> Path:
    with Outlast(database):
        pass
    foreign_rows(database, "CREATE TABLE ledger (task_id TEXT)")
    return database


@pytest.mark.timeout(600)
def test_an_exception_at_any_moment_of_any_verb_loses_doubles_and_blocks_nothing(
    with_ledger: Path,
) -> None:
    with Child(_is_struck_beside_others, with_ledger, CALLS) as child:
        assert child.hear() == [], "nobody may hang"
        struck, surprises = child.hear()
        stored, completed = child.hear(), child.hear()
        assert surprises == []
        assert struck > CALLS / 20, "the signals must have met the operations"
        with Outlast(with_ledger, settings=Settings(write_timeout_seconds=20)) as other:
            other.enqueue("work", id="of another process")
        child.say()
        assert child.hear() is True, "close() must return"
        assert child.wait() == 0, child.error()
    statuses = foreign_statuses(with_ledger)
    assert set(stored) <= set(statuses), "what was acknowledged is there"
    assert {statuses[task_id] for task_id in completed} <= {"completed"}
    assert "running" not in statuses.values(), "what was in hand was given back"
    assert foreign_rows(with_ledger, "SELECT name FROM locks") == [], "as were the locks"
    ledger = [task_id for (task_id,) in foreign_rows(with_ledger, "SELECT task_id FROM ledger")]
    assert len(ledger) == len(set(ledger)), "nothing ran twice"
    assert set(ledger) <= set(statuses), "nothing was stored by halves"
    assert_sound(with_ledger)


def _forks_at_random(path: str, forks: int) -> None:
    import os
    import random
    import threading
    import time

    from outlast import Outlast, Settings
    from tests.crash.forks.test_struck_at_random import (
        BESIDE,
        PATIENCE_SECONDS,
        Verbs,
        work_beside,
    )
    from tests.support.childside import say

    # A flush after each commit: then batches are often answered and not yet left behind.
    app = Outlast(path, settings=Settings(flush_commits=1)).open()
    stop, surprises = threading.Event(), list[str]()
    others, chance = [Verbs(app, f"t{n}") for n in range(BESIDE)], random.Random(5)
    threads = [
        threading.Thread(target=work_beside, args=(one, stop, surprises), daemon=True)
        for one in others
    ]
    for thread in threads:
        thread.start()
    took, codes = [], []
    for n in range(forks):
        time.sleep(chance.uniform(0, 0.01))
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            is_parents = app._handle.is_serving
            app.enqueue("work", id=f"child-{n}")
            os._exit(int(is_parents))
        took.append(time.monotonic() - began)
        codes.append(os.waitpid(pid, 0)[1])
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    say([one.name for one in threads if one.is_alive()])
    say([codes, max(took), surprises[:5], [one for each in others for one in each.stored]])
    app.close()


@pytest.mark.timeout(600)
def test_forks_at_any_moment_lose_double_and_block_nothing(with_ledger: Path) -> None:
    with Child(_forks_at_random, with_ledger, FORKS) as child:
        assert child.hear() == [], "nobody may hang"
        codes, longest_seconds, surprises, stored = child.hear()
        assert child.wait() == 0, child.error()
    assert (codes, surprises) == ([0] * FORKS, [])
    assert longest_seconds < PATIENCE_SECONDS / 6, "a fork waits for no more than one batch"
    statuses = foreign_statuses(with_ledger)
    assert set(stored) | {f"child-{n}" for n in range(FORKS)} <= set(statuses)
    ledger = [task_id for (task_id,) in foreign_rows(with_ledger, "SELECT task_id FROM ledger")]
    assert len(ledger) == len(set(ledger))
    assert_sound(with_ledger)
