"""Many want the one write lock: who meets a busy store, how it waits, and behind whom."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from outlast import DatabaseError, Outlast, QueueStalled, Settings
from outlast.store.commit.batch import Batch
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.commit.operation import Operation
from outlast.store.sqlite import write_gate
from tests.store.hand import Hand, engine_of, store_of
from tests.support.children import Child
from tests.support.foreign import foreign_rows
from tests.support.grouping import is_committing
from tests.support.sitting import sits_in_a_transaction

PATIENCE_SECONDS = 60


class Sleeps(list[float]):
    """Stands in for sleeping: notes how long, and does something after so many."""

    def __init__(self, after: int, act: Callable[[], object]) -> None:
        super().__init__()
        self._after = after
        self._act = act

    def sleep(self, seconds: float) -> None:
        self.append(seconds)
        if len(self) == self._after:
            self._act()


@pytest.fixture
def count_sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sleeps]:
    """Time stands still while a writer waits; what it waits for happens after so many sleeps."""

    def count(after: int, act: Callable[[], object]) -> Sleeps:
        sleeps = Sleeps(after, act)
        stand_in = SimpleNamespace(sleep=sleeps.sleep, monotonic=lambda: 0.0)
        monkeypatch.setattr(write_gate, "time", stand_in)
        return sleeps

    return count


@contextmanager
def write_lock_of(database: Path) -> Iterator[apsw.Connection]:
    """SQLite's own write lock, taken by somebody who knows nothing of our gate."""
    connection = apsw.Connection(str(database))
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        connection.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.001)


@pytest.mark.proves("CLM-12")
@pytest.mark.parametrize("verb", ["claim", "enqueue", "complete"])
def test_a_store_that_is_busy_four_times_is_asked_a_fifth(
    app: Outlast, database: Path, count_sleeps: Callable[..., Sleeps], verb: str
) -> None:
    """Real BUSY from SQLite. The seed's five tries from 50 ms would keep a claim waiting for
    a lock that is held for less than one: we look every millisecond, until the time is up."""
    app.enqueue_many("work", range(2))
    (lease,) = app.claim("w")
    acts: dict[str, Callable[[], bool]] = {
        "claim": lambda: len(app.claim("w")) == 1,
        "enqueue": lambda: app.enqueue("work").status == "pending",
        "complete": lease.complete,
    }
    with write_lock_of(database) as holder:
        sleeps = count_sleeps(4, lambda: holder.execute("ROLLBACK"))
        assert acts[verb]()
    assert len(sleeps) == 4
    assert all(0.0005 <= slept <= 0.001 for slept in sleeps)


@pytest.mark.proves("CLM-12")
def test_those_who_wait_never_keep_step(
    app: Outlast, database: Path, count_sleeps: Callable[..., Sleeps]
) -> None:
    app.open()
    with write_lock_of(database) as holder:
        sleeps = count_sleeps(200, lambda: holder.execute("ROLLBACK"))
        app.enqueue("work")
    assert 0.0005 <= min(sleeps) < 0.0006
    assert 0.0009 < max(sleeps) <= 0.001
    assert len(set(sleeps)) > 100


@pytest.mark.proves("CLM-12")
def test_a_constraint_error_surfaces_at_once_whatever_it_says(
    app: Outlast, hand: Hand, count_sleeps: Callable[..., Sleeps]
) -> None:
    """Recognized by its class: this one's text speaks of a locked database."""
    hand.run('CREATE TABLE "notes" (n CONSTRAINT "database is locked (BUSY)" CHECK (n > 0))')
    sleeps = count_sleeps(0, lambda: None)
    before = engine_of(app)._database.writer.commits
    with pytest.raises(DatabaseError, match=r"ConstraintError: CHECK .*database is locked"):
        app.enqueue("work", id="t", also=[("INSERT INTO notes VALUES (-1)", ())])
    assert sleeps == []
    assert engine_of(app)._database.writer.commits == before
    assert hand.rows("SELECT id FROM tasks") == []


def _stops_amid_its_claim(path: str) -> None:
    from outlast import Outlast, probes
    from tests.support.childside import hear, say

    def pause(name: str) -> None:
        if name == "claim.updated":
            probes.arm(None)
            say(name)
            hear()

    app = Outlast(path).open()
    probes.arm(pause)
    say([lease.task_id for lease in app.claim("first")])
    hear()


@pytest.mark.proves("CLM-13")
@pytest.mark.parametrize("came_up_empty", [False, True])
def test_two_claimers_that_want_the_same_task_get_one_each(
    database: Path, came_up_empty: bool
) -> None:
    """The other has the best task in its uncommitted hands; ours, which still sees both as
    pending, neither takes it for its own nor goes away with nothing."""
    with Outlast(database) as app:
        if came_up_empty:
            assert app.claim("second") == []
        app.enqueue("work", id="best", priority=9)
        app.enqueue("work", id="next")
        with Child(_stops_amid_its_claim, database) as other:
            assert other.hear() == "claim.updated"
            got: list[Any] = []
            claimer = threading.Thread(target=lambda: got.append(app.claim("second")))
            claimer.start()
            claimer.join(0.2)
            assert claimer.is_alive(), "it waits for its turn"
            other.say()
            assert other.hear() == ["best"]
            claimer.join(PATIENCE_SECONDS)
            assert [lease.task_id for (lease,) in got] == ["next"]
            assert foreign_rows(database, "SELECT DISTINCT status FROM tasks") == [["running"]]


@pytest.mark.proves("CLM-13")
def test_claimers_in_one_group_get_one_each(app: Outlast, database: Path) -> None:
    """Eight claims that share a transaction, and as many tasks as claims."""
    app.enqueue_many("work", range(9))
    with queued_behind_a_lock(app, database, [lambda: app.claim("w")] * 9) as answers:
        pass
    assert len({lease.task_id for (lease,) in answers}) == 9


@contextmanager
def queued_behind_a_lock(
    app: Outlast, database: Path, acts: Sequence[Callable[[], Any]]
) -> Iterator[list[Any]]:
    """The first waits for the write lock, the others for the first; then the lock is let go."""
    queue = store_of(app).tasks._access.queue
    answers: list[Any] = [None] * len(acts)

    def run(n: int) -> None:
        answers[n] = acts[n]()

    def has_joined(n: int) -> bool:
        return is_committing(queue) and len(queue.shared) == n

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(acts))]
    with write_lock_of(database) as holder:
        for n, thread in enumerate(threads):
            thread.start()
            wait_until(partial(has_joined, n))
        yield answers
        holder.execute("ROLLBACK")
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "nobody may hang"


@pytest.mark.proves("PRF-09")
def test_appends_and_beats_ride_along_in_the_transaction_of_a_claim(
    make_app: Callable[..., Outlast], database: Path
) -> None:
    app = make_app(heal_at_claim=False)
    app.enqueue_many("work", range(9))
    held = app.claim("w", limit=8)
    writer = engine_of(app)._database.writer
    before = writer.commits
    acts: list[Callable[[], Any]] = [lambda: app.enqueue("work", id="leads").id]
    acts += [lease.renew for lease in held[:4]]
    acts += [partial(lease.checkpoint, "tool_executed", 1) for lease in held[4:]]
    acts += [lambda: app.enqueue("work", id="follows").id, lambda: app.claim("w")]
    with queued_behind_a_lock(app, database, acts) as answers:
        pass
    assert writer.commits - before == 2, "the first one's own, and one for all that followed"
    (lease,) = answers[-1]
    assert lease.attempt == 1
    assert (answers[0], answers[-2]) == ("leads", "follows")
    assert [one.sequence_number for one in answers[5:9]] == [1] * 4


class Queueing:
    """Notes how many groups began between an operation's coming and its own group's beginning."""

    def __init__(self, app: Outlast, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: dict[str, list[int]] = {}
        self._begun = 0
        self._came: dict[int, int] = {}
        take, this = CommitQueue._taken, self

        class Noted(deque[Operation[Any]]):
            def append(self, operation: Operation[Any]) -> None:
                this._came.setdefault(id(operation), this._begun)
                super().append(operation)

        def noted_take(queue: CommitQueue) -> Batch | None:
            taken = take(queue)
            for one in taken.members if taken is not None else ():
                # Whoever comes while a batch is being taken may be in it, or in the next one.
                groups = max(0, self._begun - self._came.pop(id(one)) - 1)
                self.waits.setdefault(one.context, []).append(groups)
            self._begun += taken is not None
            return taken

        monkeypatch.setattr(CommitQueue, "_taken", noted_take)
        for name in ("shared", "alone"):
            monkeypatch.setattr(store_of(app).tasks._access.queue, name, Noted())


@pytest.mark.proves("PRF-09")
def test_under_a_mixed_load_a_claim_is_always_in_the_next_group(
    make_app: Callable[..., Outlast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in groups, not in milliseconds, which a busy machine may stretch at will: none
    begins and ends between a claim's coming and the one it is in."""
    app = make_app(heal_at_claim=False, flush_pages=1_000_000)
    app.enqueue_many("work", range(300))
    held = app.claim("w", limit=8)
    queueing = Queueing(app, monkeypatch)
    stop = threading.Event()

    def load(n: int) -> None:
        while not stop.is_set():
            held[n].renew()
            held[n].checkpoint("tool_executed", n)
            app.enqueue("work", queue="elsewhere")

    threads = [threading.Thread(target=load, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert all(len(app.claim("w")) == 1 for _ in range(200))
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert len(queueing.waits["claim"]) == 200
    assert {context: max(waits) for context, waits in queueing.waits.items()} == {
        "claim": 0, "renew": 0, "checkpoint": 0, "enqueue": 0,
    }  # fmt: skip
    assert sum(map(len, queueing.waits.values())) > 600, "there was no load"


def test_all_who_wait_for_a_stopped_process_are_told_its_pid_together(database: Path) -> None:
    """Those who followed the first to be told do not wait as long as it did once more."""
    settings = Settings(stall_seconds=0.1, write_timeout_seconds=2)
    told: list[int | None] = []
    told_at: list[float] = []
    with Outlast(database, settings=settings) as app:
        with Child(sits_in_a_transaction, database) as writer:
            writer.hear()
            writer.signal(signal.SIGSTOP)

            def ask() -> None:
                with pytest.raises(QueueStalled, match=r"\(stopped\)") as caught:
                    app.enqueue("work")
                told.append(caught.value.pid)
                told_at.append(time.monotonic())

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
            assert told == [writer.pid] * 8
            assert max(told_at) - min(told_at) < 1.5
        assert app.enqueue("work", id="t").id == "t", "its death set the queue free"
    assert foreign_rows(database, "SELECT id FROM tasks") == [["t"]]
