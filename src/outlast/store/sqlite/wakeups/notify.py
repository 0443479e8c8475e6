"""Hints between threads and processes: after a commit, whoever waits for one is told to look.

A waiter binds a datagram socket in the side folder for as long as it waits; a committer sends an
empty datagram to each. A hint may be lost, and whoever waits also polls: nothing depends on it.
"""

import os
import re
import time
from os import stat
from typing import NamedTuple

from outlast.logs import logger
from outlast.store.sqlite.presence.exits import ExitWatch
from outlast.store.sqlite.side_folder.side_folder import SideFolder, is_settled
from outlast.store.sqlite.wakeups.listener import LETTERS, BoundSocket, SocketListener
from outlast.store.sqlite.wakeups.sockets import NEW, WakeFolder
from outlast.store.topics import Topic

log = logger("outlast.store")

# What is called otherwise was not made by the store, and is neither told nor removed.
_OF_A_LISTENER = re.compile(rf"[{''.join(LETTERS)}]+-[0-9a-f]{{16}}")
_UNFINISHED = re.compile(rf"{NEW}-{_OF_A_LISTENER.pattern}")

Names = list[tuple[str, frozenset[Topic]]]


class Listeners(NamedTuple):
    """The folder as last listed; without its time it holds for the one call that listed it."""

    changed_ns: int
    door: WakeFolder | None
    names: Names


_NOTHING = Listeners(0, None, [])


class Wakeups:
    """This process's way to tell, and to be told, that a commit may concern whoever waits."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self._path = str(folder.wake)
        self._door: WakeFolder | None = None
        self.listed = _NOTHING
        self._listeners: set[SocketListener] = set()
        self._is_closed = False
        self._has_complained = False
        self.exits = ExitWatch()

    def listener(self, topics: frozenset[Topic], *, for_exits: bool = False) -> SocketListener:
        """One that every later `tell` reaches; where no socket can be made, it only sleeps."""
        bound = self._bound(topics) if topics else None
        listener = SocketListener(bound, self._listeners.discard, self.exits if for_exits else None)
        self._listeners.add(listener)
        if self._is_closed:
            listener.close()
        return listener

    def _bound(self, topics: frozenset[Topic]) -> BoundSocket | None:
        try:
            return BoundSocket(self._open(os.lstat(self._path)), topics, self._folder.likeness())
        except OSError as error:
            self._complain(error)
            return None

    def tell(self, topics: frozenset[Topic]) -> None:
        """Hint to all who wait for one of these; what cannot be told is found by polling."""
        if self._is_closed:
            return
        try:
            # A folder that was moved or removed has another time, too.
            changed_ns, door, names = self.listed
            if door is None or stat(door.number).st_ctime_ns != changed_ns:
                door, names = self._look()
            for name, wanted in names:
                if not wanted.isdisjoint(topics):
                    door.send(name)
        except Exception as error:
            # The commit stands; a hint is not worth an error in its place.
            log.debug("nobody could be woken: %s", error)

    def look_anew(self) -> None:
        """The side folder is another: whom there is to tell is found out with the next commit."""
        self.listed = _NOTHING

    def _look(self) -> tuple[WakeFolder, Names]:
        """List the folder; remember it only if no later change can have the same time."""
        looked_at_ns = time.time_ns()
        found = os.lstat(self._path)
        door = self._open(found)
        names: Names = []
        for name in door.names():
            letters = name.partition("-")[0]
            if _UNFINISHED.fullmatch(name):
                door.sweep(name)
            elif _OF_A_LISTENER.fullmatch(name):
                names.append((name, frozenset(LETTERS[letter] for letter in letters)))
        changed_ns = found.st_ctime_ns if is_settled(found.st_ctime_ns, looked_at_ns) else 0
        self.listed = Listeners(changed_ns, door, names)
        return door, names

    def _open(self, found: os.stat_result) -> WakeFolder:
        door = self._door
        if door is None or door.identity != (found.st_dev, found.st_ino):
            door = self._door = WakeFolder(self._folder)
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
        for listener in list(self._listeners):
            listener.close()
        self.exits.close()
        self._door, self.listed = None, _NOTHING

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's, and leave its sockets alone."""
        door = self._door
        self.exits.abandon()
        self.close()
        if door is not None:
            door.close()
