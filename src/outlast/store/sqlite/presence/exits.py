"""Being told of deaths by the kernel: a hint that makes healing instant; nothing depends on it.

All processes that registered on this host and in this pid namespace are watched through one
descriptor, which becomes readable when any of them ends. The lock file decides whether it did.
"""

import os
import select
import threading
from collections.abc import Iterable
from contextlib import suppress

from outlast.host import processes
from outlast.store.presence import Peer

MOST_WATCHED = 512


class Watching:
    """A descriptor that is readable once somebody has ended.

    Closed with its last user: no thread ever meets a number that has become another file's.
    """

    def __init__(self, number: int) -> None:
        self._close = os.close
        self.number = number

    def __del__(self) -> None:
        with suppress(OSError):
            self._close(self.number)


class ExitWatch:
    """The processes this one would like to hear of, should they end."""

    def __init__(self) -> None:
        # A signal handler may come in between, so it lets the same thread in twice.
        self._mutex = threading.RLock()
        self._epoll: select.epoll | None = None
        self._watched: dict[tuple[int, int], int] = {}
        self._signals: dict[tuple[int, int], int] = {}
        self._is_closed = False
        self.count = 0
        """How many of those that were watched were seen to have ended."""

    def watch(self, peers: Iterable[Peer]) -> None:
        """Watch these from now on, and nobody else."""
        here = processes.this_process()
        wanted = {
            (peer.pid, peer.pid_started)
            for peer in peers
            if (peer.boot_id, peer.pid_namespace) == (here.boot_id, here.pid_namespace)
            and peer.pid != here.pid
        }
        with self._mutex:
            if self._is_closed or wanted == self._watched.keys():
                return
            for process in self._watched.keys() - wanted:
                self._drop(process)
            for process in list(wanted - self._watched.keys())[: MOST_WATCHED - len(self._watched)]:
                self._add(process)

    def _add(self, process: tuple[int, int]) -> None:
        descriptor = processes.process_descriptor(process[0])
        if descriptor is None:
            return
        # Between the row and this moment the number may have passed to somebody else.
        if processes.process_is(*process) is not True:
            os.close(descriptor)
            return
        try:
            if self._epoll is None:
                self._epoll = select.epoll()
            self._epoll.register(descriptor, select.EPOLLIN)
        except OSError:
            os.close(descriptor)
            return
        self._watched[process] = descriptor

    def exit_signal(self, peer: Peer) -> int | None:
        """The signal that ended a process, if the kernel says or has said so."""
        here = processes.this_process()
        if (peer.boot_id, peer.pid_namespace) != (here.boot_id, here.pid_namespace):
            return None
        process = peer.pid, peer.pid_started
        with self._mutex:
            self._ask(process)
            return self._signals.pop(process, None)

    def _ask(self, process: tuple[int, int]) -> None:
        found = processes.exit_signal(*process, self._watched.get(process))
        if found is None:
            return
        if len(self._signals) >= MOST_WATCHED:
            # Somebody else has forgotten the longest dead by now.
            del self._signals[next(iter(self._signals))]
        self._signals[process] = found

    def _drop(self, process: tuple[int, int]) -> None:
        self._ask(process)
        descriptor = self._watched.pop(process, None)
        if descriptor is None:
            return
        with suppress(OSError, ValueError):
            if self._epoll is not None:
                self._epoll.unregister(descriptor)
        os.close(descriptor)

    def duplicate(self) -> "Watching | None":
        """What the caller can wait on until one of them has ended, also of those still to come."""
        with self._mutex, suppress(OSError):
            if self._is_closed:
                return None
            if self._epoll is None:
                self._epoll = select.epoll()
            return Watching(os.dup(self._epoll.fileno()))
        return None

    def take(self) -> int:
        """How many have ended so far; each who waits compares it with what it was told before."""
        with self._mutex:
            ended = {number for number, _ in self._epoll.poll(0)} if self._epoll else set()
            for process in [one for one, number in self._watched.items() if number in ended]:
                self._drop(process)
            self.count += len(ended)
            return self.count

    def close(self) -> None:
        """Stop watching."""
        with self._mutex:
            self._is_closed = True
            watched, self._watched = self._watched, {}
            epoll, self._epoll = self._epoll, None
        for descriptor in watched.values():
            os.close(descriptor)
        if epoll is not None:
            epoll.close()

    def abandon(self) -> None:
        """In a forked child: leave what the parent watches alone, and a mutex that it may hold."""
        self._mutex = threading.RLock()
        self.close()
