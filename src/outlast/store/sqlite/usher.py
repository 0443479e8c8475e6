"""Coroutines have no thread to lead a group with: the usher leads for all of them, in one job."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

from outlast.errors import QueueFull
from outlast.store.sqlite.pending import DECIDED, Pending, Turn

LOOK_UP_SECONDS = 0.1


@cache
def _asyncio() -> tuple[Callable[[], Any], type[BaseException]]:
    """What a waiting coroutine needs; programs without any need not import it."""
    import asyncio

    return asyncio.get_running_loop, asyncio.CancelledError


class Queue(Protocol):
    """The group commit, as the usher sees it."""

    def enter(self, pending: Pending[Any], turn: Turn | None = None) -> bool:
        """Join the queue, to be woken by this turn; False while it is full."""
        ...

    def withdraw(self, pending: Pending[Any], why: BaseException | None = None) -> bool:
        """Take an operation back before it is begun."""
        ...

    def see_through(self, pending: Pending[Any]) -> None:
        """Lead or follow, as a thread."""
        ...

    def has_followers(self) -> bool:
        """Whether anybody waits for a group."""
        ...

    def lead_if_nobody_does(self, who: Turn) -> bool:
        """Lead one group unless another does."""
        ...

    def full(self) -> QueueFull:
        """The error of one who waited for room too long."""
        ...


class Usher:
    """Called when a coroutine waits; gone again when nobody does."""

    def __init__(
        self,
        queue: Queue,
        later: Callable[[Callable[[], None]], None],
        limits: tuple[int, float],
    ) -> None:
        self.turn = Turn()
        self.is_there = False
        self._queue = queue
        self._later = later
        self._most_waiting, self._room_timeout_seconds = limits
        self._mutex = threading.RLock()
        self._is_called = False
        self._lone: deque[Pending[Any]] = deque()
        self._is_called_for_lone = False
        self._room_ears: deque[Any] = deque()

    def seen_through(self, pending: Pending[Any]) -> Generator[Any, None, None]:
        """Await what a leader decides; cancelled too late to be withdrawn, it is awaited still."""
        running_loop, cancellation = _asyncio()
        loop = running_loop()
        cancelled: BaseException | None = None
        deadline = 0.0
        while pending.stage != DECIDED:
            ear = (loop, loop.create_future())
            is_new = pending.ear is None
            try:
                if is_new and not self._has_room_for(pending):
                    deadline = deadline or loop.time() + self._room_timeout_seconds
                    yield from self._await_room(ear, deadline)
                    continue
                # Whoever decides it looks for the ear afterwards, and so must we for the decision.
                pending.ear = ear
                if pending.stage == DECIDED:
                    break
                if is_new and (pending.operation.alone or not self._is_called):
                    # One who is about to leave says so first, and then looks whether anybody waits.
                    self.call(pending)
                yield from ear[1]
            except BaseException as error:
                # Whatever drives its caller out, a signal's exception too, takes it back if it can.
                if self._queue.withdraw(pending, error) or not isinstance(error, cancellation):
                    raise
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _has_room_for(self, pending: Pending[Any]) -> bool:
        if pending.operation.alone:
            return len(self._lone) < self._most_waiting
        return self._queue.enter(pending, self.turn)

    def _await_room(self, ear: Any, deadline: float) -> Generator[Any, None, None]:
        loop, room = ear
        if loop.time() > deadline:
            raise self._queue.full()
        self._room_ears.append(ear)
        later = loop.call_later(LOOK_UP_SECONDS, _wake_all, [room])
        self.call()
        try:
            yield from room
        finally:
            later.cancel()
            with suppress(ValueError):
                self._room_ears.remove(ear)

    def tell_of_room(self) -> None:
        """A group was taken, and there is room in the queue for the next."""
        if self._room_ears:
            ears = [self._room_ears.popleft() for _ in range(len(self._room_ears))]
            tell_coroutines(ears)

    def call(self, pending: Pending[Any] | None = None) -> None:
        """One job leads for all coroutines, and one sees their lone operations through in turn."""
        if pending is not None and pending.operation.alone:
            self._call_for_lone(pending)
            return
        with self._mutex:
            if self._is_called:
                return
            self._is_called = True
        try:
            self._later(self._lead_group_after_group)
        except BaseException:
            # A signal's exception, perhaps: nobody may come, and two are not one too many.
            self._is_called = False
            raise

    def _call_for_lone(self, pending: Pending[Any]) -> None:
        with self._mutex:
            self._lone.append(pending)
            if self._is_called_for_lone:
                return
            self._is_called_for_lone = True
        try:
            self._later(self._see_lone_ones_through)
        except BaseException:
            self._is_called_for_lone = False
            raise

    def _see_lone_ones_through(self) -> None:
        while True:
            with self._mutex:
                if not self._lone:
                    self._is_called_for_lone = False
                    return
                pending = self._lone.popleft()
            self.tell_of_room()
            try:
                self._queue.see_through(pending)
            except BaseException as error:
                # It was never stored, and nobody but us can say so.
                if self._queue.withdraw(pending, error):
                    tell_coroutines([pending.ear])

    def _has_left(self) -> bool:
        """Whether nobody waits although everybody has seen that they would have to call."""
        with self._mutex:
            self._is_called = self.is_there = False
            if self._queue.has_followers():
                self._is_called = self.is_there = True
            return not self._is_called

    def _lead_group_after_group(self) -> None:
        self.is_there = True
        try:
            while True:
                if not self._queue.has_followers() and self._has_left():
                    return
                if not self._queue.lead_if_nobody_does(self.turn):
                    self.turn.wait(True, LOOK_UP_SECONDS)
        except BaseException:
            self._is_called = self.is_there = False
            if self._queue.has_followers():
                self.call()
            raise


def tell_coroutines(ears: Sequence[Any]) -> None:
    """Wake coroutines, with one call into each of their loops."""
    by_loop: dict[Any, list[Any]] = {}
    for loop, ear in ears:
        by_loop.setdefault(loop, []).append(ear)
    for loop, woken in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake_all, woken)
        except RuntimeError:
            # The loop was closed; nobody waits there any more.
            continue


def _wake_all(ears: Sequence[Any]) -> None:
    for ear in ears:
        if not ear.done():
            ear.set_result(None)
