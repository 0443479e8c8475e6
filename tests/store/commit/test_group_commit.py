"""The commit queue, with a commit that goes on when the test says so: no time, no disk."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outlast import QueueFull, StoreError
from outlast.store.commit.batch import Batch
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.commit.operation import Operation

PATIENCE_SECONDS = 30


class Disk:
    """Commits groups one by one, each only when let through, and remembers who was in which."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self._begun = threading.Semaphore(0)
        self._let_through = threading.Semaphore(0)
        self.is_free = False
        self.inside: Callable[[], None] = lambda: None

    def commit(self, batch: Batch) -> None:
        self.groups.append([member.context for member in batch.members])
        self._begun.release()
        self.inside()
        if not self.is_free:
            assert self._let_through.acquire(timeout=PATIENCE_SECONDS)
        for member in batch.members:
            member.answer = member.context
        batch.succeed()

    def await_group(self) -> None:
        assert self._begun.acquire(timeout=PATIENCE_SECONDS), "nobody commits"

    def let_through(self) -> None:
        self._let_through.release()

    def free(self) -> None:
        self.is_free = True
        self._let_through.release()


class Crowd:
    """Callers in threads of their own, each known by the name of its operation."""

    def __init__(self, most_waiting: int, room_timeout_seconds: float) -> None:
        self.disk = Disk()
        self.queue = CommitQueue(self.disk.commit, (most_waiting, room_timeout_seconds))
        self.answers: dict[str, object] = {}
        self._threads: list[threading.Thread] = []

    def operation(self, name: str) -> Operation[Any]:
        return Operation(self.queue, name, lambda tx: name, (name,), alone=name.startswith("lone"))

    def call(self, *names: str) -> None:
        """Each in its thread; returns once all of them are queued, or taken."""
        for name in names:
            before = self._seen()
            self.call_outside(name)
            await_more(self._seen, before)

    def call_outside(self, name: str) -> threading.Thread:
        """One that finds no room, and so cannot be seen to have queued."""
        return self.ask(name, self.operation(name))

    def ask(self, name: str, operation: Operation[Any]) -> threading.Thread:
        """Wait for an operation in a thread of its own."""
        thread = threading.Thread(target=self._answer, args=(name, operation), daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _answer(self, name: str, operation: Operation[Any]) -> None:
        try:
            self.answers[name] = operation.result()
        except BaseException as error:
            self.answers[name] = error

    def _seen(self) -> int:
        return len(self.queue.shared) + len(self.queue.alone) + len(self.disk.groups)

    def join(self) -> None:
        self.disk.free()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "nobody may hang"
        self.queue.close()


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
        return await crowd.operation(name)

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
            return await crowd.operation(name)

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
    """As a finalizer would that runs on the committer's thread: it would wait for itself."""
    refusals: list[str] = []

    def call_again() -> None:
        crowd.disk.inside = lambda: None
        with pytest.raises(StoreError) as caught:
            crowd.operation("inner").result()
        refusals.append(str(caught.value))

    crowd.disk.is_free = True
    crowd.disk.inside = call_again
    assert crowd.operation("outer").result() == "outer"
    assert "from inside one of its own operations" in refusals[0]
    assert crowd.operation("next").result() == "next"
    assert crowd.disk.groups == [["outer"], ["next"]]


def test_the_committer_is_one_thread_which_is_started_with_the_first_operation_and_ends(
    crowd: Crowd,
) -> None:
    def committers() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name == "outlast-commit"]

    before = len(committers())
    crowd.disk.is_free = True
    for n in range(3):
        crowd.operation(f"{n}").result()
    assert len(committers()) == before + 1
    crowd.queue.close()
    assert len(committers()) == before
    with pytest.raises(StoreError, match="this store was closed"):
        crowd.operation("late").result()
    assert crowd.disk.groups == [["0"], ["1"], ["2"]]


def test_closing_answers_all_that_wait(crowd: Crowd) -> None:
    crowd.call("first")
    crowd.disk.await_group()
    crowd.call("a", "b", "lone")
    closing = threading.Thread(target=crowd.queue.close, daemon=True)
    closing.start()
    crowd.join()
    closing.join(PATIENCE_SECONDS)
    assert crowd.answers == {name: name for name in ("first", "a", "b", "lone")}


def test_nothing_of_what_was_answered_is_kept(crowd: Crowd) -> None:
    """A payload may be large, and the next write may come tomorrow."""
    crowd.disk.is_free = True
    operation = crowd.operation("t")
    operation.answer = kept = ["large"]
    assert operation.result() == "t"
    del operation
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sys.getrefcount(kept) > 2:
        assert time.monotonic() < deadline
        time.sleep(0.001)
