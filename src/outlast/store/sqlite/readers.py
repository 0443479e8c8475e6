"""Reading connections: each read is one consistent snapshot and never waits for the writer."""

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from outlast.errors import StoreError
from outlast.store.sqlite.connection import connect, explained
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")


class Readers:
    """A small pool; a thread borrows a connection for one read."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous
        self._idle: list[apsw.Connection] = []
        self._all: list[apsw.Connection] = []
        self._lent = 0
        self._closed = False
        self._changed = threading.Condition()

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query in a read transaction of its own."""
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            return query(Transaction(connection))
        except apsw.Error as error:
            raise explained(error, context, self._path) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._give_back(connection)

    def _borrow(self) -> apsw.Connection:
        with self._changed:
            if self._closed:
                raise StoreError("this store was closed; open it again")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = connect(self._path, self._synchronous)
            connection.pragma("query_only", "ON")
            self._all.append(connection)
            return connection
        except BaseException:
            with self._changed:
                self._lent -= 1
                self._changed.notify_all()
            raise

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._changed:
            self._lent -= 1
            self._idle.append(connection)
            self._changed.notify_all()

    def close(self) -> None:
        """Wait for the reads under way, then close every connection."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._lent == 0)
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            self._all.clear()

    def abandon(self) -> None:
        """In a forked child: never touch the inherited connections again."""
        for connection in self._all:
            immortalize(connection)


def immortalize(connection: apsw.Connection) -> None:
    """Make sure a connection is never finalized, not even at exit.

    In a forked child, closing an inherited connection would roll back, and a roll back would
    scribble into memory that is shared with the parent.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
