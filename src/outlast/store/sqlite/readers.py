"""Reading connections: each read is one consistent snapshot and never waits for the writer."""

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from outlast.errors import StoreError
from outlast.logs import logger
from outlast.store.sqlite.connect import connect, explained
from outlast.store.sqlite.statements import sql
from outlast.store.sqlite.transaction import SqliteTransaction

T = TypeVar("T")

CLOSE_TIMEOUT_SECONDS = 30

log = logger("outlast.store")


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
        self._long: weakref.WeakSet[LongRead] = weakref.WeakSet()
        self._closed = False
        self._is_quiet = False
        # A lock made in C is entered in one step, which no signal can split.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)

    def read(self, context: str, query: Callable[[SqliteTransaction], T]) -> T:
        """Run a query in a read transaction of its own."""
        connection: apsw.Connection | None = None
        try:
            connection = self._borrow()
            connection.execute("BEGIN")
            return query(SqliteTransaction(connection))
        except apsw.Error as error:
            raise explained(error, context, self._path) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def read_long(self, context: str, check: Callable[[], None]) -> "LongRead":
        """A read transaction of many queries of this moment; `check` precedes each of them."""
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            # Not BEGIN but the first look at the file decides which moment is seen.
            connection.execute(sql("first_read")).fetchall()
        except BaseException as error:
            self._give_back(connection)
            if isinstance(error, apsw.Error):
                raise explained(error, context, self._path) from error
            raise
        read = LongRead(connection, self._path, self._end_long, check)
        with self._mutex:
            self._long.add(read)
            self._changed.notify_all()
        return read

    def _end_long(self, read: "LongRead", connection: apsw.Connection) -> None:
        with self._mutex:
            self._long.discard(read)
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
            long_reads = list(self._long)
        for read in long_reads:
            read.end("the store was closed")
        with self._mutex:
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
        """Before a fork: wait until no read is under way, and hold the next ones off.

        Long reads are not waited for but ended: the child could never open the file if it
        inherited one.
        """
        deadline = time.monotonic() + timeout_seconds
        self._mutex.acquire()
        while True:
            left_seconds = deadline - time.monotonic()
            self._changed.wait_for(lambda: not self._lent or self._long, left_seconds)
            long_reads = list(self._long)
            if not long_reads or left_seconds <= 0:
                break
            self._mutex.release()
            for read in long_reads:
                read.end("this process was forked")
            self._mutex.acquire()
        self._is_quiet = not self._lent
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


class LongRead:
    """Many queries of one moment; between them anybody may end it, and the next one says so."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        give_back: Callable[["LongRead", apsw.Connection], None],
        check: Callable[[], None],
    ) -> None:
        self._connection: apsw.Connection | None = connection
        self._path = path
        self._give_back = give_back
        self._check = check
        self._mutex = threading.Lock()
        self._ended_because = ""

    def read(self, context: str, query: Callable[[SqliteTransaction], T]) -> T:
        """Run a query on the moment at which this read began."""
        self._check()
        with self._mutex:
            if self._connection is None:
                raise StoreError(
                    f"{context} has ended because {self._ended_because}; begin a new one"
                )
            try:
                return query(SqliteTransaction(self._connection))
            except apsw.Error as error:
                raise explained(error, context, self._path) from error

    def end(self, because: str) -> None:
        """Let go of the moment; a query under way is waited for, within reason."""
        if not self._mutex.acquire(timeout=CLOSE_TIMEOUT_SECONDS):
            return
        try:
            connection, self._connection = self._connection, None
            self._ended_because = self._ended_because or because
        finally:
            self._mutex.release()
        if connection is not None:
            self._give_back(self, connection)


def immortalize(connection: apsw.Connection) -> None:
    """Make sure a connection is never finalized, not even at exit.

    In a forked child, closing an inherited connection would roll back, and a roll back would
    scribble into memory that is shared with the parent.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
