"""What goes wrong around a leader: a signal at the worst moment, a fault nobody foresaw."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from outlast.store.sqlite.group import GroupCommit
from outlast.store.sqlite.pending import DECIDED, Pending, Turn

from outlast import Outlast
from outlast.store.sqlite import group
from outlast.store.sqlite.transaction import Transaction
from tests.store.hand import store_of
from tests.store.test_group_commit import PATIENCE_SECONDS, Crowd, await_more
from tests.support.children import Child


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd(most_waiting=100, room_timeout_seconds=PATIENCE_SECONDS)
    yield made
    made.join()


def test_a_lone_operation_of_a_coroutine_is_answered(crowd: Crowd) -> None:
    crowd.disk.is_free = True

    async def ask() -> Any:
        return await crowd.group.submit(crowd.operation("lone"))

    assert asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS)) == "lone"


class Struck(Exception):
    """What a signal's handler raises."""


class StruckQueue(deque[Pending[Any]]):
    """A queue in which a signal's handler runs, once, while somebody joins it."""

    def __init__(self, handler: Callable[[], None], is_before: bool) -> None:
        super().__init__()
        self._handlers = [handler]
        self._is_before = is_before

    def append(self, pending: Pending[Any]) -> None:
        if self._is_before and self._handlers:
            self._handlers.pop()()
        super().append(pending)
        if self._handlers:
            self._handlers.pop()()


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_who_is_interrupted_while_joining_the_queue_is_out_of_it(
    crowd: Crowd, is_before: bool
) -> None:
    def strike() -> None:
        raise Struck

    crowd.call("first")
    crowd.disk.await_group()
    crowd.group.shared = StruckQueue(strike, is_before)
    with pytest.raises(Struck):
        crowd.group.submit(crowd.operation("interrupted")).result()
    crowd.call("next")
    crowd.join()
    assert crowd.answers == {"first": "first", "next": "next"}
    assert crowd.disk.groups == [["first"], ["next"]]


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_handlers_own_operation_while_another_joins_the_queue_harms_neither(
    crowd: Crowd, is_before: bool
) -> None:
    """It leads, perhaps with the interrupted one in its group, whose fate is decided then."""
    inner: list[object] = []

    def call() -> None:
        inner.append(crowd.group.submit(crowd.operation("inner")).result())

    crowd.disk.is_free = True
    crowd.group.shared = StruckQueue(call, is_before)
    outer = crowd.group.submit(crowd.operation("outer"))
    assert crowd.group.enter(outer)
    crowd.ask("outer", outer)
    crowd.join()
    assert (crowd.answers, inner) == ({"outer": "outer"}, ["inner"])
    assert sorted(name for group in crowd.disk.groups for name in group) == ["inner", "outer"]


@pytest.mark.parametrize("where", ["successor", "turn_of", "_name_the_next", "_wake_the_next"])
def test_a_leader_that_is_struck_where_it_steps_down_leaves_the_lead_to_others(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Guards against a leader that is nobody and yet at work: all others would wait for ever."""
    home: Any = GroupCommit if where.startswith("_") else group
    real, strikes = getattr(home, where), [Struck]

    def struck(*given: Any) -> Any:
        if strikes and threading.current_thread() is leading:
            raise strikes.pop()
        return real(*given)

    leading = crowd.call_outside("first")
    monkeypatch.setattr(home, where, struck)
    crowd.disk.await_group()
    crowd.call("follows", "lone")
    crowd.disk.let_through()
    crowd.join()
    assert not strikes
    assert isinstance(crowd.answers.pop("first"), Struck)
    assert crowd.answers == {"follows": "follows", "lone": "lone"}
    assert crowd.group.leader is None


class SlowTurn(Turn):
    """Before its sleeper is told of its answer for the first time, something else happens."""

    __slots__ = ("_before", "_pending", "_real")

    def __init__(self, pending: Pending[Any], before: Callable[[], None]) -> None:
        super().__init__()
        assert pending.turn is not None
        self._pending = pending
        self._real = pending.turn
        self.wait = self._real.wait
        self._before = [before]

    def wake(self) -> None:
        if self._before and self._pending.stage == DECIDED:
            self._before.pop()()
        self._real.wake()


def test_two_leaders_that_answer_at_once_leave_nobody_without_an_answer(crowd: Crowd) -> None:
    """The one is held in the middle of its answers, while the other gives its own and those."""
    crowd.call("first")
    crowd.disk.await_group()
    # The first of them leads, and needs not be told.
    crowd.call("a")
    asked = crowd.group.submit(crowd.operation("b"))
    crowd.ask("b", asked)
    await_more(lambda: len(crowd.group.shared), 1)
    met: list[str] = []

    def another_leads() -> None:
        thread = crowd.call_outside("other")
        thread.join(PATIENCE_SECONDS)
        met.append("stuck" if thread.is_alive() else "answered")

    asked.turn = SlowTurn(asked, another_leads)
    crowd.join()
    assert met == ["answered"]
    assert crowd.answers == {name: name for name in ("first", "a", "b", "other")}


def _calls_the_store_from_a_handler_while_it_waits() -> None:
    import os
    import signal
    import threading

    from outlast import StoreError
    from tests.store.test_group_commit import Crowd, await_more
    from tests.support.childside import say

    crowd = Crowd(most_waiting=100, room_timeout_seconds=30)
    crowd.call("first")
    crowd.disk.await_group()
    outer = crowd.group.submit(crowd.operation("lone outer"))

    def handle(number: int, frame: object) -> None:
        try:
            say(crowd.group.submit(crowd.operation("inner")).result())
        except StoreError as error:
            say(str(error))
        crowd.disk.free()

    def strike() -> None:
        await_more(lambda: int(outer.turn is not None), 0)
        os.kill(os.getpid(), signal.SIGALRM)

    signal.signal(signal.SIGALRM, handle)
    threading.Thread(target=strike, daemon=True).start()
    say(outer.result())
    say(crowd.disk.groups)


def test_an_operation_called_by_a_handler_while_its_thread_waits_is_refused() -> None:
    """It would wait for the very call it interrupts, which is named to lead next."""
    with Child(_calls_the_store_from_a_handler_while_it_waits) as child:
        assert "from inside one of its own operations" in child.hear()
        assert child.hear() == "lone outer"
        assert child.hear() == [["first"], ["lone outer"]]


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
        await store._submit("enqueue", faulty(runs), alone=alone)

    with pytest.raises(Fault):
        asyncio.run(asyncio.wait_for(ask(), PATIENCE_SECONDS))
    assert len(runs) == 1
    assert app.enqueue("work", id="next").id == "next"


def _leads_for_others_of_whom_one_is_faulty(path: str) -> None:
    """The main thread cannot tell another's fault from what a signal's handler raised."""
    import asyncio
    import os
    import threading
    from collections.abc import Callable

    from outlast import Outlast
    from outlast.store.sqlite.transaction import Transaction
    from tests.store.hand import store_of
    from tests.store.test_group_faults import Fault, faulty
    from tests.support.childside import say
    from tests.support.grouping import answering, await_that

    app, runs, answers = Outlast(path).open(), list[str](), [None, None]
    store, go_on = store_of(app), threading.Event()
    waiting = store._group.shared

    async def ask() -> list[str]:
        async def one(run: Callable[[Transaction], object]) -> str:
            try:
                return str(await store._submit("x", run))
            except Fault:
                return "its own fault"

        both = asyncio.gather(one(faulty(runs)), one(lambda tx: "ok"))
        return list(await asyncio.wait_for(both, 30))

    first = answering(answers, 0, store._submit("x", lambda tx: go_on.wait(30)).result)
    await_that(lambda: store._group._under_way is not None)

    def let_them_follow() -> None:
        await_that(lambda: len(waiting) == 1)
        loop = answering(answers, 1, lambda: asyncio.run(ask()))
        await_that(lambda: len(waiting) == 3)
        go_on.set()
        loop.join(30)
        first.join(30)

    following = threading.Thread(target=let_them_follow)
    following.start()
    try:
        store._submit("x", lambda tx: "of the main thread").result()
    except Fault:
        say("told of a fault")
    following.join(30)
    say(answers)
    say(app.enqueue("work", id="next").id)
    os._exit(0)


def test_a_fault_in_a_follower_reaches_its_own_caller_and_spares_the_others(
    database: Path,
) -> None:
    with Child(_leads_for_others_of_whom_one_is_faulty, database) as child:
        *_, answers, following = child.hear_all()
        assert answers == [True, ["its own fault", "ok"]], child.error()
        assert following == "next"
