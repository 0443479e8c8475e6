"""One store for each file in a process, however many Outlast objects use it; and forks.

POSIX locks belong to a process and an inode, so what guards a file must be one thing per process
and inode. This module is the single place that holds such process-wide state.
"""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from outlast.clock import Instant, SystemClock
from outlast.errors import InvalidInput, StoreBusy, StoreError
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.commit.commit_queue import CommitQueue
from outlast.store.records import Principal
from outlast.store.sqlite import open
from outlast.store.sqlite.engine import ServingEngine
from outlast.store.sqlite.file_guard import FileId, file_id
from outlast.store.store import Store

FORK_PATIENCE_SECONDS = 10.0

log = logger("outlast.store")


class Backend(Protocol):
    """Opens stores; all objects of a process on one file share what it opens."""

    def serve(
        self, path: Path, settings: Settings, now: Instant, assists: Principal | None = None
    ) -> Store:
        """Open to serve: create or migrate if nobody uses the store, then join its users.

        An assistant is no holder of its own: it acts for the one it assists.
        """
        ...

    def look(self, path: Path, settings: Settings) -> Store:
        """Open to look: change nothing."""
        ...

    def leave(self, store: Store, now: Instant) -> bool:
        """Stop using a store; the last user closes it. True if it was the last."""
        ...

    def migrate(self, path: Path, settings: Settings, now: Instant) -> list[str]:
        """Bring a store up to date by hand."""
        ...


class Registry:
    """The open stores of this process, by device and inode, with a count of their users."""

    def __init__(self, make_engine: open.MakeEngine = ServingEngine) -> None:
        """`make_engine` lets the laboratory have engines that stop between transactions."""
        self._make_engine = make_engine
        self._mutex = threading.RLock()
        self._serving: dict[FileId, Store] = {}
        self._looking: dict[FileId, Store] = {}
        self._users: dict[int, int] = {}
        self._busy_at_fork: set[FileId] = set()
        self._inherited_in_use: set[FileId] = set()

    def serve(
        self, path: Path, settings: Settings, now: Instant, assists: Principal | None = None
    ) -> Store:
        """Join the store that serves this file in this process, or open it."""
        with self._mutex:
            self._refuse_inherited(path)
            found = self._current(self._serving, path)
            if found is None:
                self._stop_looking(path)
                found = self._served(path, settings, now, assists)
                self._serving[_identity(path)] = found
            elif found.engine.traits.synchronous != settings.synchronous:
                raise InvalidInput(
                    f"{path} is open in this process with"
                    f" synchronous={found.engine.traits.synchronous!r};"
                    " use the same setting, for all objects on one file share one connection"
                )
            elif settings.exclusive and not found.engine.traits.is_exclusive:
                raise StoreBusy(
                    f"{path} is to be used exclusively and is open in this process already, where"
                    " others may share it; close it first, or leave the setting exclusive out"
                )
            self._users[id(found)] = self._users.get(id(found), 0) + 1
            return found

    def _served(
        self, path: Path, settings: Settings, now: Instant, assists: Principal | None
    ) -> Store:
        engine = open.open_to_serve(path, settings, now, assists, self._make_engine)
        return self._store_on(engine, settings)

    def _store_on(self, engine: ServingEngine, settings: Settings) -> Store:
        limits = (settings.max_waiting_writes, settings.write_timeout_seconds)
        return Store(engine, CommitQueue(engine.run_batch, limits))

    def look(self, path: Path, settings: Settings) -> Store:
        """Join whatever this process has open on the file, or open it to look."""
        with self._mutex:
            self._refuse_inherited(path)
            found = self._current(self._serving, path) or self._current(self._looking, path)
            if found is None:
                found = Store(open.open_to_look(path, settings))
                self._looking[_identity(path)] = found
            self._users[id(found)] = self._users.get(id(found), 0) + 1
            return found

    def leave(self, store: Store, now: Instant) -> bool:
        """Stop using a store; the last user closes it. True if it was the last."""
        with self._mutex:
            left = self._users.pop(id(store), 1) - 1
            if left > 0:
                self._users[id(store)] = left
                return False
            for stores in (self._serving, self._looking):
                for identity in [key for key, value in stores.items() if value is store]:
                    del stores[identity]
            store.close(now)
            return True

    def migrate(self, path: Path, settings: Settings, now: Instant) -> list[str]:
        """Bring a file up to date by hand, under the exclusive lock."""
        with self._mutex:
            if self._current(self._serving, path) is not None:
                return []
            self._stop_looking(path)
            return open.migrate_by_hand(path, settings, now)

    def _stop_looking(self, path: Path) -> None:
        """Who looks holds the openers' lock too, and would refuse us our own migration.

        Reads under way go on; whoever looks leaves when it is done.
        """
        identity = file_id(path)
        found = self._looking.get(identity) if identity else None
        if found is not None:
            found.engine.step_aside()

    def _current(self, stores: dict[FileId, Store], path: Path) -> Store | None:
        """The open store of the file that lies at the path now, unless it had to give up."""
        identity = file_id(path)
        if identity is None or identity not in stores:
            return None
        if stores[identity].closed:
            del stores[identity]
            return None
        return stores[identity]

    def close_at_exit(self, was_interrupted: bool) -> None:
        """The interpreter ends and somebody forgot to close."""
        for store in list(self._serving.values()):
            try:
                store.close_at_exit(SystemClock().now(), was_interrupted, FORK_PATIENCE_SECONDS)
            except Exception as error:
                log.debug("leaving at exit: %s", error)

    def quiesce(self) -> None:
        """Before a fork: let every operation end, for a child cannot inherit half of one."""
        self._mutex.acquire()
        self._busy_at_fork = {
            identity
            for identity, store in self._stores()
            if not store.quiesce(FORK_PATIENCE_SECONDS)
        }

    def resume(self) -> None:
        """After a fork, in the parent: go on."""
        with ExitStack() as going_on:
            # Each of them, whatever becomes of the others: a quiesce may have been interrupted.
            going_on.callback(self._mutex.release)
            for _, store in self._stores():
                going_on.callback(store.resume)

    def abandon(self) -> None:
        """After a fork, in the child: everything inherited belongs to the parent."""
        stores = self._stores()
        self._inherited_in_use |= self._busy_at_fork
        self._mutex = threading.RLock()
        self._serving, self._looking, self._users = {}, {}, {}
        for _, store in stores:
            try:
                store.abandon()
            except Exception as error:
                log.warning("leaving the parent's store behind: %s", error)

    def _stores(self) -> list[tuple[FileId, Store]]:
        return [*self._serving.items(), *self._looking.items()]

    def _refuse_inherited(self, path: Path) -> None:
        """A file whose transaction was under way at the fork cannot be opened safely here."""
        if file_id(path) in self._inherited_in_use:
            raise StoreError(
                f"{path} was in the middle of an operation when this process was forked, and"
                " cannot be opened here; fork while it is idle, or start processes with spawn"
            )


def _identity(path: Path) -> FileId:
    found = file_id(path)
    assert found is not None, "a store that was just opened has a file"
    return found


registry = Registry()
