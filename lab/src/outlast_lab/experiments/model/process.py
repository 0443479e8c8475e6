"""Processes that live inside this one, by the thousand, and can die at any point without goodbye.

A real crash is a real kill, and other experiments do that. Here a process is one registry:
whatever a process owns alone (connections, incarnation, worker lock file, openers' lock) hangs
from it. Its locks are held through descriptors of its own, so to the kernel two registries are
two owners.

Its stores stop before and after every transaction, outside of every lock: an actor hands the baton
back there, and another one runs, or the process dies. Whoever is no actor passes.
"""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from outlast.app.app import Outlast
from outlast.app.handle import StoreHandle
from outlast.clock import Clock, Instant
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.commit.operation import Operation
from outlast.store.opening import Registry
from outlast.store.records import Batch, Opened, Principal
from outlast.store.session import Session
from outlast.store.sqlite.engine import ServingEngine
from outlast.store.sqlite.presence.own import OwnPresence
from outlast.store.sqlite.presence.peers import Incarnation
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.side_folder.only_one import Turn
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import UsersLock
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.store import Store
from outlast.tasks.checked_enqueue import CheckedEnqueue
from outlast.tasks.functions import Functions
from outlast_lab.experiments.model import baton

T = TypeVar("T")

QUIET = logger("outlast.lab.quiet")
QUIET.setLevel(logging.CRITICAL)


class StandInProcess:
    """Makes Outlast objects that share one incarnation, which can die without goodbye."""

    def __init__(
        self,
        path: Path,
        settings: Settings,
        clock: Clock,
        jitter: Callable[[], float] = random.random,
        *,
        births: Iterator[int] | None = None,
    ) -> None:
        """`births` numbers incarnations, so that those who list them list them alike each time."""
        self._path = path
        self._settings = settings
        self._clock = clock
        self._jitter = jitter
        self._births = births
        self._registry = _MortalRegistry(births)

    def outlast(self, on_close: Callable[[], None] = lambda: None) -> Outlast:
        """An object of this process, on its file and clock; it tells when it begins to close."""
        handle = _Handle(self._registry, self._path, self._settings, self._clock, self._jitter)
        handle.on_close = on_close
        return _Inhabitant(handle, self._settings, self._clock)

    def crash(self) -> None:
        """Leave behind what a killed process would: every row as it is, every lock free.

        The kernel closes a dead process's descriptors, and nothing else happens: no lease is
        given back, no worker signs off, no lock file is unlinked, no log is flushed. The Outlast
        objects made before are of the dead and must not be used again.
        """
        registry, self._registry = self._registry, _MortalRegistry(self._births)
        registry.die()


class _Turnstile:
    """A lock that is waited for at a boundary, so that whoever holds it can be let run on."""

    def __init__(self) -> None:
        self._is_taken = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        if self._is_taken:
            baton.until(lambda: not self._is_taken)
        self._is_taken = True
        try:
            yield
        finally:
            self._is_taken = False


class _MortalRegistry(Registry):
    """The open stores of one stand-in process."""

    def __init__(self, births: Iterator[int] | None) -> None:
        super().__init__(
            lambda folder, users, settings, assists, opened: _MortalEngine(
                folder, users, settings, births, opened=opened
            )
        )
        self._turnstile = _Turnstile()

    def _store_on(self, engine: ServingEngine, settings: Settings) -> Store:
        limits = (settings.max_waiting_writes, settings.write_timeout_seconds)
        return Store(engine, _PausingQueue(engine.run_batch, limits))

    def serve(
        self, path: Path, settings: Settings, now: Instant, assists: Principal | None = None
    ) -> Store:
        with self._turnstile.passed():
            return super().serve(path, settings, now, assists)

    def look(self, path: Path, settings: Settings) -> Store:
        with self._turnstile.passed():
            return super().look(path, settings)

    def leave(self, store: Store, now: Instant) -> bool:
        with self._turnstile.passed():
            return super().leave(store, now)

    def die(self) -> None:
        for looking in self._looking.values():
            looking.close(Instant(0, 0))
        for serving in self._serving.values():
            if isinstance(serving.engine, _MortalEngine):
                serving.engine.closed = True
                if serving.queue is not None:
                    serving.queue.close()
                serving.engine.die()


class _MortalEngine(ServingEngine):
    """An engine whose process can die."""

    def __init__(
        self,
        folder: SideFolder,
        users: UsersLock,
        settings: Settings,
        births: Iterator[int] | None,
        *,
        opened: Opened,
    ) -> None:
        super().__init__(folder, users, settings, opened=opened)
        if births is not None:
            self._own = _NumberedPresence(folder, births)
            self.presence.own = self._own
        self._readers.close()
        self._readers = _PausingReaders(folder.database, settings.synchronous)
        self._database.readers = self._readers

    def only_one(self, name: str, timeout_seconds: float = 0.0) -> Turn | None:
        """Who has the turn stands at a boundary, and is let run on instead of being waited for."""
        if timeout_seconds:
            baton.until(lambda: not self.is_somebodys(name))
        return super().only_one(name, timeout_seconds)

    def die(self) -> None:
        """What the kernel does for the dead: every descriptor is closed."""
        self.closed = True
        self._database.close()
        self._own.end(has_left=False)
        self._gate.close()
        self._users.release()


class _NumberedPresence(OwnPresence):
    def __init__(self, folder: SideFolder, births: Iterator[int]) -> None:
        super().__init__(folder)
        self._births = births

    def _born(self) -> Incarnation:
        return Incarnation(self._folder, f"{next(self._births):032x}")


# One that died inside of a commit never comes to an end.
COMMITTER_SECONDS = 2.0


class _PausingQueue(CommitQueue):
    def wait(self, operation: Operation[Any]) -> None:
        lines_up = baton.before_write(operation.context)
        if lines_up and not operation.alone:
            # Nobody wakes the committer: whoever writes next does, and both share a transaction.
            self.shared.append(operation)
            baton.lined_up(operation.context)
            self._took_back(operation)
        if not operation.is_decided:
            super().wait(operation)
        self._await_committer()
        baton.after_write(operation.context)

    def _await_committer(self) -> None:
        """It goes on by itself with whoever is lined up, and that belongs to this slice, too."""
        ends_at = monotonic() + COMMITTER_SECONDS
        while self.under_way is not None and not self.is_inside() and monotonic() < ends_at:
            sleep(0.0005)


class _PausingReaders(Readers):
    def read(self, context: str, query: Callable[[SqliteTransaction], T]) -> T:
        baton.before_read(context)
        return super().read(context, query)


class _Handle(StoreHandle):
    """Opens the stores of a stand-in process; who must wait for it waits at a boundary."""

    def __init__(
        self,
        registry: _MortalRegistry,
        path: Path,
        settings: Settings,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        super().__init__(lambda: registry, path, settings, clock, None, log=QUIET)
        self._jitter = jitter
        self._turnstile = _Turnstile()
        self.on_close: Callable[[], None] = lambda: None

    def serve(self, tell: Callable[[Batch], None] | None = None) -> Session:
        session = self._session
        if session is not None and not session.store.closed:
            return session
        with self._turnstile.passed():
            return super().serve(tell)

    def look(self) -> Store:
        if self._session is not None or self._looking is not None:
            return super().look()
        with self._turnstile.passed():
            return super().look()

    def close(self, error: BaseException | None = None) -> None:
        with self._turnstile.passed():
            self.on_close()
            super().close(error)

    def _open(self, tell: Callable[[Batch], None] | None) -> Session:
        session = super()._open(tell)
        session.jitter = self._jitter
        return session


class _Inhabitant(Outlast):
    """An Outlast object of a stand-in process."""

    def __init__(self, handle: StoreHandle, settings: Settings, clock: Clock) -> None:
        super().__init__(handle.path, settings=settings, clock=clock)
        self._handle = handle
        self._functions = Functions(handle.serve)
        self._checked_enqueue = CheckedEnqueue(handle, self._functions, self.wait)
