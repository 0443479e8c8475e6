"""What goes wrong around the committer: faults nobody foresaw, and threads that cannot start."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast import OutcomeUnknown, Outlast, StoreError
from outlast.store.commit.batch import Batch
from outlast.store.transaction import Transaction
from tests.store.commit.test_group_commit import PATIENCE_SECONDS, Crowd, await_more
from tests.store.commit.test_group_interrupts import Struck
from tests.store.hand import store_of
from tests.support.grouping import is_committing


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd(most_waiting=100, room_timeout_seconds=PATIENCE_SECONDS)
    yield made
    made.join()


def test_a_lone_operation_of_a_coroutine_is_answered(crowd: Crowd) -> None:
    crowd.disk.is_free = True

    async def ask() -> Any:
        return await crowd.operation("lone")

    assert asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS)) == "lone"


class Fault(Exception):
    """An error of no kind that the store knows."""


def faulty(runs: list[str]) -> Callable[[Transaction], None]:
    def run(tx: Transaction) -> None:
        runs.append(threading.current_thread().name)
        raise Fault

    return run


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "shared"])
def test_a_fault_in_a_coroutines_operation_is_its_answer_and_is_met_once(
    app: Outlast, alone: bool
) -> None:
    store, runs = store_of(app.open()), list[str]()

    async def ask() -> None:
        await store.tasks._access.submit("enqueue", faulty(runs), alone=alone)

    with pytest.raises(Fault):
        asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS))
    assert len(runs) == 1
    assert app.enqueue("work", id="next").id == "next"


@pytest.mark.parametrize("error", [Fault, MemoryError, SystemExit, KeyboardInterrupt])
def test_a_commit_that_fails_in_no_foreseen_way_is_told_and_the_next_one_succeeds(
    crowd: Crowd, error: type[BaseException]
) -> None:
    """Guards against a committer that ends by an error, and everybody who waits for it."""

    def fail() -> None:
        crowd.disk.inside = lambda: None
        raise error

    crowd.disk.is_free, crowd.disk.inside = True, fail
    with pytest.raises(error):
        crowd.operation("t").result()
    assert crowd.operation("next").result() == "next"


def test_a_commit_that_was_sent_and_fails_in_no_foreseen_way_is_in_doubt(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batch: Batch) -> None:
        batch.commit_sent = True
        raise Fault

    monkeypatch.setattr(crowd.queue, "_run_batch", fail)
    with pytest.raises(OutcomeUnknown):
        crowd.operation("t").result()


def _refuses_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_where_no_thread_can_be_started_a_caller_commits_by_itself(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd.disk.is_free = True
    with monkeypatch.context() as patched:
        _refuses_threads(patched)
        assert crowd.operation("here").result() == "here"

        async def ask() -> Any:
            return await crowd.operation("lone")

        assert asyncio.run(ask()) == "lone"
    assert crowd.operation("there").result() == "there"


def test_a_call_inside_of_one_that_commits_by_itself_is_refused(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def call_again() -> None:
        with pytest.raises(StoreError) as caught:
            crowd.operation("inner").result()
        refused.append(str(caught.value))

    crowd.disk.is_free, crowd.disk.inside = True, call_again
    _refuses_threads(monkeypatch)
    assert crowd.operation("outer").result() == "outer"
    assert "from inside one of its own operations" in refused[0]


def test_after_the_committer_went_callers_commit_by_themselves(crowd: Crowd) -> None:
    """As at the interpreter's end, where a thread would never go on."""
    crowd.disk.is_free = True
    assert crowd.operation("first").result() == "first"
    crowd.queue.retire()
    assert crowd.operation("late").result() == "late"
    assert "outlast-commit" not in [one.name for one in threading.enumerate()]


def test_a_thread_that_is_struck_while_it_starts_does_no_harm(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a committer that nobody ends, and one that nobody knows of."""
    start = threading.Thread.start

    def struck(thread: threading.Thread) -> None:
        start(thread)
        raise Struck

    before = threading.active_count()
    crowd.disk.is_free = True
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", struck)
        with pytest.raises(Struck):
            crowd.operation("struck").result()
    for n in range(20):
        assert crowd.operation(f"{n}").result() == f"{n}"
    crowd.queue.close()
    for thread in threading.enumerate():
        if thread.name == "outlast-commit":
            thread.join(PATIENCE_SECONDS)
    assert threading.active_count() == before
    assert len(crowd.disk.groups) in (20, 21), "taken back, or waited for"


def test_a_fault_in_one_member_reaches_its_own_caller_and_spares_the_others(app: Outlast) -> None:
    store, runs, go_on = store_of(app.open()), list[str](), threading.Event()
    first = threading.Thread(
        target=store.tasks._access.submit("x", lambda tx: go_on.wait(PATIENCE_SECONDS)).result
    )
    first.start()
    await_more(lambda: int(is_committing(store.tasks._access.queue)), 0)

    async def ask() -> list[str]:
        async def one(run: Callable[[Transaction], object]) -> str:
            try:
                return str(await store.tasks._access.submit("x", run))
            except Fault:
                return "its own fault"

        both = asyncio.gather(one(faulty(runs)), one(lambda tx: "ok"))
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        return list(await asyncio.wait_for(both, PATIENCE_SECONDS))

    assert asyncio.run(ask()) == ["its own fault", "ok"]
    first.join(PATIENCE_SECONDS)
