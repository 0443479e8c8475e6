"""Hints between threads and processes: after a commit, whoever waits for one is told to look.

A waiter binds a datagram socket in the side folder for as long as it waits; a committer sends an
empty datagram to each. A hint may be lost, and whoever waits also polls: nothing depends on it.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from os import stat
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

from outlast import _host
from outlast.logs import logger
from outlast.store.sqlite.deaths import DeathWatch, Watching
from outlast.store.sqlite.files import Likeness, SideFolder, is_settled
from outlast.store.sqlite.sockets import NEW, DatagramSocket, WakeFolder
from outlast.store.sqlite.words import EARS, change_in

if TYPE_CHECKING:
    import asyncio

log = logger("outlast.store")

_LONGEST_WAIT_SECONDS = 86_400.0
_LONGEST_QUEUE = 1024

# How long no word is taken for nobody new: who listens may not be able to write one.
_BY_WORD_SECONDS = 0.02


class Topic(StrEnum):
    """What a waiter waits for: tasks that may be ready, tasks that ended, a lock, any news."""

    WORK = "work"
    DONE = "done"
    LOCK = "lock"
    NEWS = "news"


_LETTERS = {"w": Topic.WORK, "d": Topic.DONE, "l": Topic.LOCK, "n": Topic.NEWS}
# Whoever waits for one of these wants to know at once when somebody dies.
_OF_THE_LIVING = frozenset({Topic.WORK, Topic.LOCK})


class _Ear:
    """A bound socket under a name that says what it listens for."""

    def __init__(self, door: WakeFolder, topics: frozenset[Topic], like: Likeness | None) -> None:
        letters = "".join(letter for letter, topic in _LETTERS.items() if topic in topics)
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


class Waiter:
    """One idle caller's ear, there only while it waits."""

    def __init__(
        self,
        ear: _Ear | None,
        forget: Callable[["Waiter"], None],
        deaths: DeathWatch | None = None,
    ) -> None:
        """One that also hears of deaths wakes when another process ends."""
        self._ear = ear
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
        ear, watching = self._ear, self._watch()
        watched = -1 if watching is None else watching.number
        if ear is None and min(watched, descriptor) >= 0:
            _host.wait_until_readable([watched, descriptor], _bounded(timeout_seconds))
            return self._somebody_died() and not self._is_closed
        if ear is not None:
            poll = select.poll()
            poll.register(ear.socket, select.POLLIN)
            for number in (descriptor, watched):
                if number >= 0:
                    poll.register(number, select.POLLIN)
            poll.poll(_bounded(timeout_seconds) * 1000)
            somebody_died = self._somebody_died()
            with suppress(OSError):
                return not self._is_closed and (ear.drain() or somebody_died)
            self._lose()
        if descriptor >= 0:
            _host.wait_until_readable([descriptor], _bounded(until - time.monotonic()))
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
        ear = self._ear
        watching = self._watch()
        numbers = [] if ear is None else [ear.socket.fileno()]
        if ear is not None and watching is not None:
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
            return ear is not None and not self._is_closed and (ear.drain() or somebody_died)
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
        ear, self._ear = self._ear, None
        if ear is None:
            return
        if self._pid == os.getpid():
            ear.hang_up()
        else:
            ear.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


class _Seen(NamedTuple):
    """The folder as last listed; without its time it holds for the one call that listed it."""

    changed_ns: int
    door: WakeFolder | None
    names: tuple[tuple[str, frozenset[Topic]], ...]
    # The listeners' word before the look: whoever came later has changed it again.
    word: int = 0


_NOTHING = _Seen(0, None, ())


class Wakeups:
    """This process's way to tell, and to be told, that a commit may concern whoever waits."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self._path = str(folder.wake)
        self._door: WakeFolder | None = None
        self._seen = _NOTHING
        # Changed by whoever begins to listen; read before each look at the folder.
        self._words: memoryview | None = None
        self._heard_until = 0.0
        self._waiters: set[Waiter] = set()
        self._is_closed = False
        self._has_complained = False
        self.deaths = DeathWatch()

    def heed(self, words: memoryview | None) -> None:
        """From now on, who begins to listen is learned of by a word, and looked for if it came."""
        self._words = words

    def waiter(self, topics: frozenset[Topic]) -> Waiter:
        """An ear that every later `tell` reaches; where none can be made, one that only sleeps."""
        ear = None
        try:
            door = self._open(os.lstat(self._path))
            ear = _Ear(door, topics, self._folder.likeness())
            change_in(self._folder.gate, EARS)
        except OSError as error:
            self._complain(error)
        deaths = None if topics.isdisjoint(_OF_THE_LIVING) else self.deaths
        waiter = Waiter(ear, self._waiters.discard, deaths)
        self._waiters.add(waiter)
        if self._is_closed:
            waiter.close()
        return waiter

    def death_waiter(self) -> Waiter:
        """One that hears of nothing but deaths."""
        waiter = Waiter(None, self._waiters.discard, self.deaths)
        self._waiters.add(waiter)
        if self._is_closed:
            waiter.close()
        return waiter

    def tell(self, topics: frozenset[Topic]) -> None:
        """Hint to all who wait for one of these; what cannot be told is found by polling."""
        words = self._words
        try:
            if words is None or words[EARS] != self._seen.word or monotonic() > self._heard_until:
                self._look_again(words)
            _, door, names, _ = self._seen
            for name, wanted in names:
                if door is not None and not wanted.isdisjoint(topics):
                    door.send(name)
        except Exception as error:
            # The commit stands; a hint is not worth an error in its place.
            log.debug("nobody could be woken: %s", error)

    def _look_again(self, words: memoryview | None) -> None:
        word = 0 if words is None else words[EARS]
        changed_ns, door, names, _ = self._seen
        if self._is_closed:
            return
        # A folder that was moved or removed has another time, too.
        if door is None or stat(door.number).st_ctime_ns != changed_ns:
            self._look(word)
        else:
            self._seen = _Seen(changed_ns, door, names, word)
        self._heard_until = monotonic() + _BY_WORD_SECONDS

    def look_anew(self) -> None:
        """The side folder is another: whom there is to tell is found out with the next commit."""
        self._seen, self._heard_until = _NOTHING, 0.0

    def _look(self, word: int) -> None:
        """List the folder; remember it only if no later change can have the same time."""
        looked_at_ns = time.time_ns()
        found = os.lstat(self._path)
        door = self._open(found)
        names = []
        for name in door.names():
            letters, _, rest = name.partition("-")
            if letters == NEW:
                door.sweep(name)
            elif rest and _LETTERS.keys() >= set(letters):
                names.append((name, frozenset(_LETTERS[letter] for letter in letters)))
        changed_ns = found.st_ctime_ns if is_settled(found.st_ctime_ns, looked_at_ns) else 0
        self._seen = _Seen(changed_ns, door, tuple(names), word)

    def _open(self, found: os.stat_result) -> WakeFolder:
        door = self._door
        if door is None or door.identity != (found.st_dev, found.st_ino):
            door = self._door = WakeFolder(self._path)
        return door

    def _complain(self, error: OSError) -> None:
        if not self._has_complained and not self._is_closed:
            self._has_complained = True
            log.info(
                "no socket can be made in %s (%s); waiting goes by polling alone",
                self._path,
                error.strerror or error,
            )

    def close(self) -> None:
        """End every wait of this process, and let the descriptors go."""
        self._is_closed = True
        for waiter in list(self._waiters):
            waiter.close()
        self.deaths.close()
        self._door, self._seen, self._words = None, _NOTHING, None

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's, and leave its sockets alone."""
        door = self._door
        self.deaths.abandon()
        self.close()
        if door is not None:
            door.close()


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
