"""The seam all writes pass through: one operation, one synced transaction, one honest answer."""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import apsw

from outlast._probe import probe
from outlast.errors import OutcomeUnknown, SecondSqliteCopy, StoreError, StoreReplaced
from outlast.store.sqlite.connection import explained
from outlast.store.sqlite.flush import flush
from outlast.store.sqlite.gate import Patience, WriteGate
from outlast.store.sqlite.guard import FileGuard
from outlast.store.sqlite.readers import Closed, immortalize
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")

log = logging.getLogger("outlast.store")


class Writer:
    """Runs operations on the one writing connection of this process."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        guard: FileGuard,
        gate: WriteGate,
        limits_seconds: tuple[float, float],
    ) -> None:
        self._connection = connection
        self._path = path
        self._guard = guard
        self._gate = gate
        self._limits_seconds = limits_seconds
        self._mutex = threading.RLock()
        self._closed = False
        self._is_quiet = False
        self.wal_pages = 0
        # Waiting is ours to do: the engine's own handler could not name whom we wait for.
        connection.set_busy_timeout(0)
        connection.set_wal_hook(self._count_pages)

    def _count_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def run(
        self,
        context: str,
        operation: Callable[[Transaction], T],
        task_ids: Iterable[str] = (),
    ) -> T:
        """Run an operation in a transaction of its own; return only once it is durable.

        `task_ids` are what a caller can ask resolve() about, should the commit's fate be unknown.
        """
        with self._mutex, self._open_gate():
            self._guard.check_files()
            try:
                self._begin()
                probe(f"{context}.begun")
                result = operation(Transaction(self._connection))
                probe(f"{context}.written")
                self._refuse_lost_locks()
                self._commit(task_ids)
            except apsw.Error as error:
                raise explained(error, context, self._path) from error
            finally:
                # Whatever ends an operation, a signal's exception too, leaves no transaction.
                self._roll_back()
            probe(f"{context}.committed")
        self._confirm_files(task_ids)
        return result

    def exclusively(self, context: str, action: Callable[[apsw.Connection], T]) -> T:
        """Run something that manages its own transaction, such as a flush, under the gate."""
        with self._mutex, self._open_gate():
            self._guard.check_files()
            if not self._guard.canary_stands():
                raise SecondSqliteCopy(self._lost_locks())
            try:
                return action(self._connection)
            except apsw.Error as error:
                raise explained(error, context, self._path) from error

    def rescue_unlinked_log(self) -> None:
        """Flush a WAL that somebody unlinked: what it acknowledged is still in our hands."""
        with self._mutex:
            if self._closed or not self._guard.log_is_unlinked():
                return
            log.error("the WAL of %s was removed while in use; flushing what it holds", self._path)
            try:
                flush(self._connection, "truncate")
            except apsw.Error as error:
                log.error("flushing the removed WAL failed: %s", error)

    def _begin(self) -> None:
        patience: Patience | None = None
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                patience = patience or Patience(*self._limits_seconds, self._guard.writer_pid)
                patience.wait()

    def _open_gate(self) -> AbstractContextManager[None]:
        """The gate of a store that is open; asked for under the mutex, as closing is."""
        if self._closed:
            raise Closed("this store was closed; open it again")
        return self._gate.held()

    def _refuse_lost_locks(self) -> None:
        if not self._connection.in_transaction:
            raise StoreError("a statement ended Outlast's transaction; nothing was stored")
        if not self._guard.locks_stand():
            raise SecondSqliteCopy(self._lost_locks())

    def _lost_locks(self) -> str:
        return (
            f"{self._path} was opened by other means in this process (stdlib sqlite3, open(),"
            " a copy), which drops SQLite's locks; nothing was stored. Use apsw on this file"
        )

    def _commit(self, task_ids: Iterable[str]) -> None:
        try:
            self._connection.execute("COMMIT")
        except apsw.ConstraintError:
            # A deferred constraint is the one COMMIT error that leaves no doubt.
            raise
        except apsw.Error as error:
            raise OutcomeUnknown(list(task_ids), error) from error

    def _confirm_files(self, task_ids: Iterable[str]) -> None:
        try:
            self._guard.check_files()
        except StoreReplaced as error:
            raise OutcomeUnknown(list(task_ids), error) from error

    def _roll_back(self) -> None:
        """End what is left of a transaction; FULL and IOERR may have ended it already."""
        if not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            log.warning("rolling back failed: %s", error)

    def database_is_there(self) -> bool:
        """Whether the main file itself is still the one that was opened."""
        return self._guard.database_is_there()

    def close(self) -> None:
        """Close the connection; the caller has flushed what it wanted flushed."""
        with self._mutex:
            self._closed = True
            self._connection.close()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: wait until no operation is under way, and hold the next ones off."""
        self._is_quiet = self._mutex.acquire(timeout=timeout_seconds)
        if self._is_quiet and self._connection.in_transaction:
            self._mutex.release()
            self._is_quiet = False
        return self._is_quiet

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        if self._is_quiet:
            self._is_quiet = False
            self._mutex.release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connection.

        An idle one is closed, so that the child's own connections take real locks; closing one
        in a transaction would scribble into memory that is shared with the parent.
        """
        self._closed = True
        if self._is_quiet:
            self._connection.close()
        else:
            immortalize(self._connection)
