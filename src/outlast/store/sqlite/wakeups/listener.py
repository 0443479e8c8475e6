"""One idle caller's wait: a socket that is bound while it lasts, timers, and news of deaths."""

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from outlast.host import polling
from outlast.store.sqlite.presence.exits import ExitWatch, Watching
from outlast.store.sqlite.side_folder.side_folder import Likeness
from outlast.store.sqlite.wakeups.sockets import DatagramSocket, WakeFolder
from outlast.store.topics import Topic

if TYPE_CHECKING:
    import asyncio

_LONGEST_WAIT_SECONDS = 86_400.0
_LONGEST_QUEUE = 1024


LETTERS = {"w": Topic.WORK, "d": Topic.DONE, "l": Topic.LOCK, "n": Topic.NEWS}


class BoundSocket:
    """A bound socket under a name that says what it listens for."""

    def __init__(self, door: WakeFolder, topics: frozenset[Topic], like: Likeness | None) -> None:
        letters = "".join(letter for letter, topic in LETTERS.items() if topic in topics)
        self._door = door
        self._name = f"{letters}-{os.urandom(8).hex()}"
        self.socket = DatagramSocket()
        door.bind(self.socket, self._name, like)

    def drain(self) -> bool:
        """Take every hint there is; whether there was one."""
        for count in range(_LONGEST_QUEUE):
            try:
                self.socket.recv(1)
            except BlockingIOError:
                return count > 0
        return True

    def hang_up(self) -> None:
        """Unbind, and end the waits of other threads."""
        self._door.unlink(self._name)
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class SocketListener:
    """One idle caller's socket, bound only while it waits."""

    def __init__(
        self,
        bound: BoundSocket | None,
        forget: Callable[["SocketListener"], None],
        deaths: ExitWatch | None = None,
    ) -> None:
        """One that also hears of deaths wakes when another process ends."""
        self._bound = bound
        self._forget = forget
        self._deaths = deaths
        self._deaths_told = 0 if deaths is None else deaths.count
        self._watching = None if deaths is None else deaths.duplicate()
        self._ring: Callable[[], object] | None = None
        self._is_closed = False
        self._pid = os.getpid()
        # Held until the end: a lock, unlike an event, may be let go inside a signal handler.
        self._end = threading.Lock()
        self._end.acquire()

    def wait(self, timeout_seconds: float, descriptor: int = -1) -> bool:
        """Block until a hint comes; False when none came in time, or this was closed.

        It also ends when a descriptor of the caller's own has something to read.
        """
        if self._missed_a_death():
            timeout_seconds = 0
        until = time.monotonic() + timeout_seconds
        bound, watching = self._bound, self._watch()
        watched = -1 if watching is None else watching.number
        if bound is None and min(watched, descriptor) >= 0:
            polling.wait_until_readable([watched, descriptor], _bounded(timeout_seconds))
            return self._somebody_died() and not self._is_closed
        if bound is not None:
            poll = select.poll()
            poll.register(bound.socket, select.POLLIN)
            for number in (descriptor, watched):
                if number >= 0:
                    poll.register(number, select.POLLIN)
            poll.poll(_bounded(timeout_seconds) * 1000)
            somebody_died = self._somebody_died()
            with suppress(OSError):
                return not self._is_closed and (bound.drain() or somebody_died)
            self._lose()
        if descriptor >= 0:
            polling.wait_until_readable([descriptor], _bounded(until - time.monotonic()))
        elif self._end.acquire(timeout=_bounded(until - time.monotonic())):
            self._end.release()
        return False

    async def wait_async(self, timeout_seconds: float) -> bool:
        """The same on the running loop; a hint that meets a cancelled wait is kept for the next."""
        import asyncio

        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        if self._missed_a_death():
            timeout_seconds = 0
        timer = loop.call_later(_bounded(timeout_seconds), _resolve, over)
        self._ring = lambda: loop.call_soon_threadsafe(_resolve, over)
        bound = self._bound
        watching = self._watch()
        numbers = [] if bound is None else [bound.socket.fileno()]
        if bound is not None and watching is not None:
            numbers.append(watching.number)
        listened = [_listen(loop, number, over) for number in numbers]
        try:
            if not self._is_closed:
                await over
        finally:
            self._ring = None
            timer.cancel()
            for number in listened:
                if number >= 0:
                    loop.remove_reader(number)
        somebody_died = self._somebody_died()
        with suppress(OSError):
            return bound is not None and not self._is_closed and (bound.drain() or somebody_died)
        self._lose()
        return False

    def _watch(self) -> Watching | None:
        """What becomes readable when somebody dies; there may be nobody to watch yet."""
        deaths = self._deaths
        if self._watching is None and deaths is not None:
            self._watching = deaths.duplicate()
        return self._watching

    def _missed_a_death(self) -> bool:
        """Whether another thread was told of one while this one did not wait."""
        deaths = self._deaths
        return deaths is not None and deaths.count != self._deaths_told

    def _somebody_died(self) -> bool:
        deaths, told = self._deaths, self._deaths_told
        if deaths is not None:
            self._deaths_told = deaths.take()
        return self._deaths_told != told

    def close(self) -> None:
        """Unbind; whoever waits is answered False."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watching = self._deaths = None
        self._lose()
        self._forget(self)
        ring = self._ring
        # The loop may have been closed meanwhile; after a fork it is the parent's.
        with suppress(RuntimeError):
            self._end.release()
            if ring is not None and self._pid == os.getpid():
                ring()

    def _lose(self) -> None:
        """Without its socket a waiter sleeps its time out; a forked child leaves the parent's."""
        bound, self._bound = self._bound, None
        if bound is None:
            return
        if self._pid == os.getpid():
            bound.hang_up()
        else:
            bound.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def _bounded(timeout_seconds: float) -> float:
    return min(max(timeout_seconds, 0.0), _LONGEST_WAIT_SECONDS)


def _listen(loop: "asyncio.AbstractEventLoop", number: int, over: "asyncio.Future[None]") -> int:
    """Have the loop watch a descriptor; the number to unwatch, or -1 where it cannot."""
    try:
        loop.add_reader(number, _resolve, over)
    except (OSError, ValueError, NotImplementedError):
        return -1
    return number


def _resolve(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)
