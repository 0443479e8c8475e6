"""Reading connections: each read is one consistent snapshot and never waits for the writer."""

import logging
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from outlast.errors import StoreError
from outlast.store.sqlite.connection import connect, explained
from outlast.store.sqlite.statements import sql
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

CLOSE_TIMEOUT_SECONDS = 30

log = logging.getLogger("outlast.store")


class Closed(StoreError):
    """These connections are gone; a store that connected anew has others."""


class Readers:
    """A small pool; a thread borrows a connection for one read."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._idle: list[apsw.Connection] = []
        self._watching: apsw.Connection | None = None
        # A loan that a signal's exception leaks ends with its connection.
        self._lent: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._closed = False
        self._is_quiet = False
        # A lock made in C is entered in one step, which no signal can split.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query in a read transaction of its own."""
        connection: apsw.Connection | None = None
        try:
            connection = self._borrow()
            connection.execute("BEGIN")
            return query(Transaction(connection))
        except apsw.Error as error:
            raise explained(error, context, self._path) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def _borrow(self) -> apsw.Connection:
        with self._mutex:
            if self._closed:
                raise Closed("this store was closed; open it again")
            connection = self._idle.pop() if self._idle else self._connect()
            self._lent.add(connection)
            return connection

    def _connect(self) -> apsw.Connection:
        connection = connect(self._path, self._synchronous)
        connection.pragma("query_only", "ON")
        return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        """Ends the read; a connection that cannot end it is closed rather than lent again."""
        with self._mutex:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._idle.append(connection)
            except apsw.Error:
                connection.close(True)
            finally:
                self._lent.discard(connection)
                self._changed.notify_all()

    def data_version(self) -> int:
        """Changes with every commit of any other connection; asked of one that never commits."""
        with self._mutex:
            if self._closed:
                raise Closed("this store was closed; open it again")
            if self._watching is None:
                self._watching = self._connect()
            try:
                return int(self._watching.execute(sql("data_version")).get)
            except apsw.Error as error:
                raise explained(error, "looking for changes", self._path) from error

    def close(self) -> None:
        """Wait for the reads under way, within reason, then close every connection."""
        with self._mutex:
            self._closed = True
            if not self._changed.wait_for(lambda: not self._lent, CLOSE_TIMEOUT_SECONDS):
                log.warning(
                    "%d reads of %s did not end and are abandoned", len(self._lent), self._path
                )
            self._close_idle()

    def _close_idle(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.close()
        while self._idle:
            self._idle.pop().close()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: wait until no read is under way, and hold the next ones off."""
        self._mutex.acquire()
        self._is_quiet = self._changed.wait_for(lambda: not self._lent, timeout_seconds)
        return self._is_quiet

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self._is_quiet = False
        self._mutex.release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connections; see Writer.abandon."""
        self._closed = True
        for connection in self._lent:
            immortalize(connection)
        self._close_idle()


def immortalize(connection: apsw.Connection) -> None:
    """Make sure a connection is never finalized, not even at exit.

    In a forked child, closing an inherited connection would roll back, and a roll back would
    scribble into memory that is shared with the parent.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
