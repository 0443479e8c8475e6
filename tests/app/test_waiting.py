"""Waiting in threads: for results, for work, for a moment; and what waiting costs the others."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast import (
    InvalidInput,
    Outlast,
    QueueStalled,
    Settings,
    StoreError,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
)
from outlast.store import change_watch
from outlast.store.sqlite.statements import sql
from outlast.store.sqlite.wakeups.listener import SocketListener
from outlast.testing import ManualClock
from tests.store.trace import Ran, Trace
from tests.support.children import Child

SOON_SECONDS = 60.0
NEVER_SECONDS = 1000.0


class Sleepers:
    """Runs waits in threads, and knows when one of them has gone to sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asleep = threading.Event()
        self.threads = ThreadPoolExecutor(4)
        wait = SocketListener.wait

        def noticed(waiter: SocketListener, timeout_seconds: float, descriptor: int = -1) -> bool:
            # The detector sleeps on a descriptor of its own, and is not meant.
            if descriptor < 0:
                self._asleep.set()
            return wait(waiter, timeout_seconds, descriptor)

        monkeypatch.setattr(SocketListener, "wait", noticed)

    def send(self, call: Callable[..., Any], *args: Any, **options: Any) -> "Future[Any]":
        self._asleep.clear()
        sent = self.threads.submit(call, *args, **options)
        assert self._asleep.wait(SOON_SECONDS)
        return sent


@pytest.fixture
def sleepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sleepers]:
    made = Sleepers(monkeypatch)
    yield made
    made.threads.shutdown(wait=False)


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_watch, "POLL_SECONDS", NEVER_SECONDS)


@pytest.fixture
def patient(database: Path) -> Iterator[Outlast]:
    """By the real clock, and looking for the dead so seldom that only a reason wakes a waiter."""
    with Outlast(database, settings=Settings(heal_interval_seconds=NEVER_SECONDS)) as app:
        yield app


@pytest.mark.parametrize("timeout", [0, 5, None])
def test_a_task_that_has_ended_answers_at_once(app: Outlast, timeout: float | None) -> None:
    app.enqueue_many("work", range(3), id=["done", "failed", "cancelled"])
    done, failed = app.claim("w", limit=2)
    done.complete({"sum": 3})
    failed.fail("broken", retry=False)
    app.cancel("cancelled")
    assert app.wait("done", timeout) == app.get("done").wait(timeout) == {"sum": 3}
    with pytest.raises(TaskFailed, match="task failed failed: broken") as raised:
        app.wait("failed", timeout)
    assert (raised.value.task_id, raised.value.error) == ("failed", "broken")
    with pytest.raises(TaskCancelled, match="was cancelled"):
        app.wait("cancelled", timeout)
    with pytest.raises(TaskNotFound):
        app.wait("nobody", timeout)


def test_one_who_waits_long_enough_is_told_so_and_the_task_goes_on(app: Outlast) -> None:
    task = app.enqueue("work", id="t1")
    for timeout in (0, 0.02, "20ms"):
        with pytest.raises(
            TimeoutError,
            match=r"t1 did not end within [\d.]+ s \(pending: no live worker serves .*\); nothing",
        ):
            task.wait(timeout)
    (lease,) = app.claim("w")
    lease.complete("later")
    assert task.wait(0) == "later"


def test_a_record_that_knows_no_store_says_so(app: Outlast) -> None:
    app.enqueue("work")
    (task,) = app.take()
    with pytest.raises(InvalidInput, match="knows no store"):
        task.wait()


@pytest.mark.usefixtures("no_polling")
def test_a_wait_outlasts_retries_and_ends_with_the_result(
    patient: Outlast, sleepers: Sleepers
) -> None:
    patient.enqueue("work", id="t1")
    waiting = sleepers.send(patient.wait, "t1", SOON_SECONDS)
    for end in ("fail", "release"):
        (lease,) = patient.claim("w")
        lease.fail("again", delay=0) if end == "fail" else lease.release()
    (lease,) = patient.claim("w")
    assert not waiting.done()
    lease.complete("at last")
    assert waiting.result(SOON_SECONDS) == "at last"


@pytest.mark.usefixtures("no_polling")
@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda app: app.cancel("t1"), TaskCancelled),
        (lambda app: app.fail("t1", "by hand"), TaskFailed),
        (lambda app: app.claim("w")[0].fail("broken", retry=False), TaskFailed),
    ],
    ids=["cancelled", "failed by an operator", "failed by its worker"],
)
def test_whatever_ends_a_task_ends_the_wait(
    patient: Outlast, sleepers: Sleepers, end: Callable[[Outlast], object], error: type[Exception]
) -> None:
    patient.enqueue("work", id="t1")
    waiting = sleepers.send(patient.wait, "t1", SOON_SECONDS)
    end(patient)
    with pytest.raises(error):
        waiting.result(SOON_SECONDS)


def _held(app: Outlast) -> Callable[[], object]:
    app.enqueue("work", id="t1")
    (lease,) = app.claim("other")
    return lease.release


def _paused(app: Outlast) -> Callable[[], object]:
    app.enqueue("work", id="t1")
    app.pause("default")
    return lambda: app.unpause("default")


def _parked(app: Outlast) -> Callable[[], object]:
    app.enqueue("work", id="t1")
    app.park("t1")
    return lambda: app.unpark("t1")


def _delayed(app: Outlast) -> Callable[[], object]:
    app.enqueue("work", id="t1", delay="1h")
    return lambda: app.unpark("t1")


def _nothing(app: Outlast) -> Callable[[], object]:
    return lambda: app.enqueue("work", id="t1")


@pytest.mark.usefixtures("no_polling")
@pytest.mark.parametrize("made_ready", [_nothing, _held, _paused, _parked, _delayed])
def test_a_claim_that_waits_is_woken_by_whatever_makes_a_task_ready(
    patient: Outlast, sleepers: Sleepers, made_ready: Callable[[Outlast], Callable[[], object]]
) -> None:
    make_ready = made_ready(patient)
    waiting = sleepers.send(patient.claim, "w", wait=SOON_SECONDS)
    assert not waiting.done()
    make_ready()
    assert [lease.task_id for lease in waiting.result(SOON_SECONDS)] == ["t1"]


@pytest.mark.usefixtures("no_polling")
@pytest.mark.parametrize("is_there_before", [True, False])
def test_a_claim_that_waits_wakes_when_a_delay_is_over(
    patient: Outlast, sleepers: Sleepers, is_there_before: bool
) -> None:
    """By a timer: nobody commits anything at that moment."""
    if is_there_before:
        patient.enqueue("work", id="t1", delay="300ms")
    waiting = sleepers.send(patient.claim, "w", wait=SOON_SECONDS)
    if not is_there_before:
        patient.enqueue("work", id="t1", delay="300ms")
    assert [lease.task_id for lease in waiting.result(SOON_SECONDS)] == ["t1"]


@pytest.mark.usefixtures("no_polling")
def test_a_claim_that_waits_wakes_when_a_lease_runs_out(
    patient: Outlast, sleepers: Sleepers
) -> None:
    patient.enqueue("work", id="t1")
    patient.claim("other", lease="300ms")
    (lease,) = sleepers.send(patient.claim, "w", wait=SOON_SECONDS).result(SOON_SECONDS)
    assert (lease.task_id, lease.attempt) == ("t1", 2)


def test_a_claim_that_waits_returns_nothing_when_the_time_is_up(app: Outlast) -> None:
    app.enqueue("work", queue="other")
    for wait in (None, 0, 0.02, "20ms"):
        assert app.claim("w", wait=wait) == app.prefetch("w", wait=wait) == []
    with pytest.raises(InvalidInput, match="wait"):
        app.claim("w", wait="soon")


@pytest.mark.slow
def test_one_task_wakes_many_and_goes_to_one(app: Outlast, sleepers: Sleepers) -> None:
    waiting = [sleepers.send(app.claim, f"w{n}", wait="1s") for n in range(3)]
    app.enqueue("work", id="t1")
    got = [lease for one in waiting for lease in one.result(SOON_SECONDS)]
    assert [lease.task_id for lease in got] == ["t1"]


@pytest.mark.slow
@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "beside another object"])
def test_closing_in_another_thread_ends_the_waits_for_work(
    make_app: Callable[..., Outlast], sleepers: Sleepers, is_shared: bool
) -> None:
    """A claim that went on would hand its task to somebody who has left."""
    app = make_app()
    other = make_app().open() if is_shared else app
    waiting = sleepers.send(app.claim, "w", wait=SOON_SECONDS)
    app.close()
    with pytest.raises(StoreError, match="closed"):
        waiting.result(SOON_SECONDS / 2)
    other.enqueue("work", id="t1")
    assert other.get("t1").status == "pending"


def test_closing_in_another_thread_ends_the_waits_for_results(
    app: Outlast, sleepers: Sleepers
) -> None:
    app.enqueue("work", id="t1")
    waiting = sleepers.send(app.wait, "t1", SOON_SECONDS)
    app.close()
    with pytest.raises(StoreError, match="this store was closed"):
        waiting.result(SOON_SECONDS / 2)


# Idle means idle


def _writes(ran: list[Ran]) -> list[str]:
    words = ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "COMMIT", "INSERT", "UPDATE", "DELETE")
    return [one.text for one in ran if one.text.lstrip().upper().startswith(words)]


@pytest.mark.proves("HEAL-20")
def test_idle_polling_runs_no_statement_that_writes(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watch, "POLL_SECONDS", 0.001)
    trace = Trace(monkeypatch)
    with Outlast(database, settings=Settings(heal_interval_seconds=0.01)) as app:
        app.enqueue("work", delay="1h")
        app.enqueue("work", queue="other")
        app.claim("w", queue="other")
        with trace.listening() as first:
            assert app.claim("w", wait=0.001) == []
        with trace.listening() as ran:
            assert app.claim("w", wait=0.5) == []
        assert _writes(first), "a trace that hears no writes at all would prove nothing"
    assert len([one for one in ran if "workers" in one.text]) > 5
    assert _writes(ran) == []


def _sits_on_the_write_lock(path: str) -> None:
    import sqlite3

    from tests.support.childside import hear, say

    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    hear()
    connection.execute("ROLLBACK")
    say("let go")


@pytest.mark.slow
@pytest.mark.proves("HEAL-20")
def test_idle_polling_does_not_ask_for_the_write_lock(make_app: Callable[..., Outlast]) -> None:
    """Another process sits on it all the while; whoever asked would be told of a stall."""
    app = make_app(write_timeout_seconds=0.05, stall_seconds=0.01, heal_interval_seconds=0.01)
    app.enqueue("work", id="held", queue="other")
    app.claim("w", queue="other")
    assert app.claim("w") == []
    with Child(_sits_on_the_write_lock, app.path) as child:
        assert child.hear() == "locked"
        with pytest.raises(QueueStalled):
            app.enqueue("work")
        assert app.claim("w", wait=0.3) == []
        child.say()
        assert child.hear() == "let go"


@pytest.mark.slow
@pytest.mark.proves("HEAL-20")
def test_claims_that_find_work_look_for_the_dead_once_a_second(
    make_app: Callable[..., Outlast], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    app = make_app()
    app.enqueue_many("work", range(60))
    for _ in range(2):
        with trace.listening() as ran:
            for _ in range(20):
                assert len(app.claim("w")) == 1
        assert len([one for one in ran if one.text == sql("living_peers")]) == 1
        clock.advance("1s")


@pytest.mark.proves("HEAL-20")
def test_healing_that_finds_nothing_writes_nothing(
    make_app: Callable[..., Outlast], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    app = make_app()
    app.enqueue("work")
    app.claim("w")
    assert app.claim("w") == []
    clock.advance("2s")
    with trace.listening() as ran:
        assert app.claim("w") == []
    assert _writes(ran) == []
    clock.advance("300s")
    with trace.listening() as ran:
        assert len(app.claim("w")) == 1
    assert _writes(ran)
