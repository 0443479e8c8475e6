"""The seam all writes pass through: one operation, one synced transaction, one honest answer."""

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import apsw

from outlast._probe import probe
from outlast.errors import OutcomeUnknown, OutlastError, SecondSqliteCopy, StoreReplaced
from outlast.store.sqlite.connection import explained
from outlast.store.sqlite.gate import Patience, WriteGate
from outlast.store.sqlite.guard import FileGuard
from outlast.store.sqlite.readers import immortalize
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
        with self._mutex, self._gate.held():
            self._guard.check_files()
            self._begin(context)
            try:
                probe(f"{context}.begun")
                result = operation(Transaction(self._connection))
                probe(f"{context}.written")
                self._refuse_lost_locks()
            except BaseException as error:
                self._roll_back()
                if isinstance(error, apsw.Error):
                    raise explained(error, context, self._path) from error
                raise
            self._commit(context, task_ids)
            probe(f"{context}.committed")
        self._confirm_files(task_ids)
        return result

    def exclusively(self, context: str, action: Callable[[apsw.Connection], T]) -> T:
        """Run something that manages its own transaction, such as a flush, under the gate."""
        with self._mutex, self._gate.held():
            self._guard.check_files()
            try:
                return action(self._connection)
            except apsw.Error as error:
                raise explained(error, context, self._path) from error

    def _begin(self, context: str) -> None:
        patience: Patience | None = None
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                patience = patience or Patience(*self._limits_seconds, self._guard.writer_pid)
                patience.wait()
            except apsw.Error as error:
                raise explained(error, context, self._path) from error

    def _refuse_lost_locks(self) -> None:
        if not self._connection.in_transaction:
            raise OutlastError("a statement ended Outlast's transaction; nothing was stored")
        if not self._guard.locks_stand():
            raise SecondSqliteCopy(
                f"{self._path} was opened by other means in this process (stdlib sqlite3, open(),"
                " a copy), which drops SQLite's locks; nothing was stored. Use apsw on this file"
            )

    def _commit(self, context: str, task_ids: Iterable[str]) -> None:
        try:
            self._connection.execute("COMMIT")
        except apsw.ConstraintError as error:
            # A deferred constraint is the one COMMIT error that leaves no doubt.
            self._roll_back()
            raise explained(error, context, self._path) from error
        except apsw.Error as error:
            self._roll_back()
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

    def close(self) -> None:
        """Close the connection; the caller has flushed what it wanted flushed."""
        with self._mutex:
            self._connection.close()

    def abandon(self) -> None:
        """In a forked child: never touch the inherited connection again."""
        immortalize(self._connection)
