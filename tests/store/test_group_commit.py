"""Leaders and followers, with a commit that goes on when the test says so: no time, no disk."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast import QueueFull, StoreError
from outlast.store.sqlite.background import Background
from outlast.store.sqlite.group import Group, GroupCommit
from outlast.store.sqlite.operation import Operation
from outlast.store.sqlite.pending import Pending, Turn
from outlast.store.sqlite.transaction import Transaction
from tests.support.children import Child

PATIENCE_SECONDS = 30


class Disk:
    """Commits groups one by one, each only when let through, and remembers who was in which."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self._begun = threading.Semaphore(0)
        self._let_through = threading.Semaphore(0)
        self.is_free = False
        self.inside: Callable[[], None] = lambda: None

    def commit(self, group: Group) -> None:
        self.groups.append([member.operation.context for member in group.members])
        self._begun.release()
        self.inside()
        if not self.is_free:
            assert self._let_through.acquire(timeout=PATIENCE_SECONDS)
        for member in group.members:
            member.ran(member.operation.context)
            member.succeed()

    def await_group(self) -> None:
        assert self._begun.acquire(timeout=PATIENCE_SECONDS), "nobody leads"

    def let_through(self) -> None:
        self._let_through.release()

    def free(self) -> None:
        self.is_free = True
        self._let_through.release()


class Crowd:
    """Callers in threads of their own, each known by the name of its operation."""

    def __init__(self, most_waiting: int, room_timeout_seconds: float) -> None:
        self.disk = Disk()
        self.background = Background()
        self.group = GroupCommit(
            self.disk.commit,
            lambda group: None,
            self.background.later,
            (most_waiting, room_timeout_seconds),
        )
        self.answers: dict[str, object] = {}
        self._threads: list[threading.Thread] = []

    def operation(self, name: str) -> Operation[Any]:
        def run(tx: Transaction) -> str:
            return name

        return Operation(name, run, (name,), alone=name.startswith("lone"))

    def call(self, *names: str) -> None:
        """Each in its thread; returns once all of them are queued, or lead."""
        for name in names:
            before = self._seen()
            thread = threading.Thread(target=self._answer, args=(name,), daemon=True)
            self._threads.append(thread)
            thread.start()
            await_more(self._seen, before)

    def call_outside(self, name: str) -> None:
        """One that finds no room, and so cannot be seen to have queued."""
        thread = threading.Thread(target=self._answer, args=(name,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _answer(self, name: str) -> None:
        try:
            self.answers[name] = self.group.submit(self.operation(name)).result()
        except BaseException as error:
            self.answers[name] = error

    def _seen(self) -> int:
        return len(self.group._shared) + len(self.group._alone) + len(self.disk.groups)

    def join(self) -> None:
        self.disk.free()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "nobody may hang"
        self.background.close()


def await_more(count: Callable[[], int], before: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while count() <= before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd(most_waiting=100, room_timeout_seconds=PATIENCE_SECONDS)
    yield made
    made.join()


def test_whoever_comes_during_a_commit_is_in_the_very_next_group(crowd: Crowd) -> None:
    """So nobody waits for more than the group under way and the one that follows it."""
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call(*[f"early {n}" for n in range(8)])
    crowd.disk.let_through()
    crowd.disk.await_group()
    crowd.call(*[f"late {n}" for n in range(8)])
    crowd.join()
    first, second, third = crowd.disk.groups
    assert first == ["first"]
    assert sorted(second) == sorted(f"early {n}" for n in range(8))
    assert sorted(third) == sorted(f"late {n}" for n in range(8))
    assert all(answer == name for name, answer in crowd.answers.items())


def test_lone_operations_and_groups_take_turns(crowd: Crowd) -> None:
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("lone 1", "lone 2", "lone 3", "a", "b")
    crowd.disk.let_through()
    crowd.disk.await_group()
    crowd.disk.let_through()
    crowd.disk.await_group()
    crowd.call("c")
    crowd.join()
    kinds = ["lone" if group[0].startswith("lone") else "group" for group in crowd.disk.groups]
    assert kinds == ["group", "lone", "group", "lone", "group", "lone"]
    assert [group for group in crowd.disk.groups if len(group) > 1] == [["a", "b"]]
    assert len(crowd.answers) == 7


def test_a_lone_operation_is_alone_in_its_transaction(crowd: Crowd) -> None:
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "lone", "b")
    crowd.join()
    assert ["lone"] in crowd.disk.groups


def test_a_full_queue_refuses_in_one_sentence_after_the_time_limit_and_loses_nobody() -> None:
    crowd = Crowd(most_waiting=2, room_timeout_seconds=0.05)
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "b")
    crowd.call_outside("too much")
    await_more(lambda: len(crowd.answers), 0)
    crowd.join()
    refusal = crowd.answers.pop("too much")
    assert isinstance(refusal, QueueFull)
    assert "2 operations have been waiting" in str(refusal)
    assert crowd.answers == {"first": "first", "a": "a", "b": "b"}
    assert crowd.disk.groups == [["first"], ["a", "b"]]


def test_a_full_queue_makes_threads_wait_until_there_is_room() -> None:
    crowd = Crowd(most_waiting=2, room_timeout_seconds=PATIENCE_SECONDS)
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "b")
    names = [f"outside {n}" for n in range(6)]
    for name in names:
        crowd.call_outside(name)
    crowd.join()
    assert set(crowd.answers) == {"first", "a", "b", *names}
    assert all(answer == name for name, answer in crowd.answers.items())
    assert max(map(len, crowd.disk.groups)) <= 2
    stored = [name for group in crowd.disk.groups for name in group]
    assert len(stored) == len(set(stored)) == 9


def test_a_full_queue_makes_coroutines_wait_and_refuses_them_after_the_time_limit() -> None:
    crowd = Crowd(most_waiting=2, room_timeout_seconds=0.3)
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "b")

    async def ask(name: str) -> Any:
        return await crowd.group.submit(crowd.operation(name))

    with pytest.raises(QueueFull):
        asyncio.run(asyncio.wait_for(ask("refused"), PATIENCE_SECONDS))
    crowd.disk.free()

    async def many() -> list[Any]:
        return await asyncio.gather(*(ask(f"c{n}") for n in range(50)))

    assert asyncio.run(many()) == [f"c{n}" for n in range(50)]
    crowd.join()
    assert "refused" not in [name for group in crowd.disk.groups for name in group]


def test_a_coroutine_cancelled_before_its_turn_never_happens(crowd: Crowd) -> None:
    crowd.call("first")
    crowd.disk.await_group()

    async def cancelled(name: str) -> None:
        async def ask() -> Any:
            return await crowd.group.submit(crowd.operation(name))

        asking = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled("shared"))
    asyncio.run(cancelled("lone"))
    crowd.join()
    assert crowd.disk.groups == [["first"]]


def test_an_operation_called_inside_a_commit_is_refused_and_the_outer_one_is_fine(
    crowd: Crowd,
) -> None:
    refusals: list[str] = []

    def call_again() -> None:
        crowd.disk.inside = lambda: None
        with pytest.raises(StoreError) as caught:
            crowd.group.submit(crowd.operation("inner")).result()
        refusals.append(str(caught.value))

    crowd.disk.is_free = True
    crowd.disk.inside = call_again
    assert crowd.group.submit(crowd.operation("outer")).result() == "outer"
    assert "from inside one of its own operations" in refusals[0]
    assert crowd.group.submit(crowd.operation("next")).result() == "next"
    assert crowd.disk.groups == [["outer"], ["next"]]


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

    crowd.disk.is_free = True
    crowd.group._shared = StruckQueue(strike, is_before)
    interrupted = crowd.group.submit(crowd.operation("interrupted"))
    with pytest.raises(Struck):
        interrupted.result()
    assert crowd.group.submit(crowd.operation("next")).result() == "next"
    assert crowd.disk.groups == [["next"]]


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_handlers_own_operation_while_joining_the_queue_harms_neither(
    crowd: Crowd, is_before: bool
) -> None:
    """It leads, perhaps with the interrupted one in its group, whose fate is decided then."""
    inner: list[object] = []

    def call() -> None:
        inner.append(crowd.group.submit(crowd.operation("inner")).result())

    crowd.disk.is_free = True
    crowd.group._shared = StruckQueue(call, is_before)
    crowd.call_outside("outer")
    crowd.join()
    assert (crowd.answers, inner) == ({"outer": "outer"}, ["inner"])
    assert sorted(name for group in crowd.disk.groups for name in group) == ["inner", "outer"]


class SlowTurn(Turn):
    """Before its sleeper is woken for the first time, something else happens."""

    __slots__ = ("_before", "_real")

    def __init__(self, real: Turn, before: Callable[[], None]) -> None:
        self._real = real
        self._before = [before]

    def wait(self, timeout_seconds: float) -> bool:
        return self._real.wait(timeout_seconds)

    def wake(self) -> None:
        if self._before:
            self._before.pop()()
        self._real.wake()


def test_two_leaders_that_answer_at_once_leave_nobody_without_an_answer(crowd: Crowd) -> None:
    """The one is held in the middle of its answers, while the other gives its own and those."""
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "b")
    met: list[str] = []

    def another_leads() -> None:
        crowd.disk.is_free = True
        thread = threading.Thread(target=crowd._answer, args=("other",), daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        met.append("stuck" if thread.is_alive() else "answered")

    first_in_line = crowd.group._shared[0]
    await_more(lambda: int(first_in_line.turn is not None), 0)
    assert first_in_line.turn is not None
    first_in_line.turn = SlowTurn(first_in_line.turn, another_leads)
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
