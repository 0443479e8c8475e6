"""The writing connection: a batch of operations, one synced transaction, an honest answer each."""

import threading
from pathlib import Path
from time import monotonic
from typing import Any

import apsw

from outlast import probes
from outlast.errors import SecondSqliteCopy, StoreError, StoreReplaced
from outlast.logs import logger
from outlast.probes import probe
from outlast.store.commit.batch import Batch, Members, run_members
from outlast.store.commit.operation import Operation, Statement
from outlast.store.sqlite.connect import explained
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.readers import Closed, immortalize
from outlast.store.sqlite.transaction import SqliteTransaction
from outlast.store.sqlite.wal import flush
from outlast.store.sqlite.write_gate import Patience, WriteGate, stalled
from outlast.store.transaction import KEPT_OUT

log = logger("outlast.store")

# Another has the write lock; or it stands still while it changes the wal-index, which SQLite says
# when it has tried for ten seconds by itself.
_IN_THE_WAY = (apsw.BusyError, apsw.ProtocolError)
_SQLITE_TRIES_SECONDS = 10.0

_LOST_LOCKS = (
    "{} was opened by other means in this process (stdlib sqlite3, open(), a copy), which drops"
    " SQLite's locks; nothing was stored. Use apsw on this file"
)


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
        self.connection = connection
        self.tx = SqliteTransaction(connection)
        self._path = path
        self._guard = guard
        self._gate = gate
        self._limits_seconds = limits_seconds
        # Whoever wants the writer goes through the entrance first: the committer comes straight
        # back, and would leave nobody else in.
        self._entrance = threading.Lock()
        self._mutex = threading.Lock()
        self._is_closed = False
        self._is_quiet = False
        # Who is told that the commit is sent: nobody's batch, unless there is another.
        self._nobodys = self._batch = Batch(())
        self.commits = 0
        """How many commits this connection has sent."""
        self.wal_pages = 0
        """How long the WAL was after the last commit of this connection."""
        self.retries = 0
        """How often the write lock was taken when we wanted it, in spite of the gate."""
        # Waiting is ours to do: SQLite's own handler could not name whom we wait for.
        connection.set_busy_timeout(0)
        gate.blocker_pid = guard.blocker_pid
        connection.set_commit_hook(self._is_to_be_refused)
        connection.set_wal_hook(self._has_grown)

    def _is_to_be_refused(self) -> bool:
        """Asked by SQLite when all is written and nothing is sent; says that it will be."""
        if not self._guard.locks_stand():
            raise SecondSqliteCopy(_LOST_LOCKS.format(self._path))
        self._batch.commit_sent = True
        self.commits += 1
        return False

    def _has_grown(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def run_batch(self, batch: Batch) -> None:
        """Run a batch's operations in one synced transaction and decide the fate of each.

        Raises what concerns all of them: a store that stalls, was replaced, or lost its locks.
        """
        with self._entrance:
            self._mutex.acquire()
        try:
            if self._is_closed:
                raise Closed("this store was closed; open it again")
            began_at = monotonic()
            self._gate.enter(began_at)
            try:
                if began_at > self._guard.recent_until:
                    self._guard.check_files()
                self._batch = batch
                if not self._is_one_statement(batch, began_at):
                    self._run_transactions(batch, began_at)
            finally:
                self._batch = self._nobodys
                self._gate.leave()
            try:
                # While nobody can connect anew: the guard would know other files then.
                self._guard.check_files()
            except StoreReplaced as error:
                batch.conclude(error)
                raise
        finally:
            self._mutex.release()
        batch.succeed()

    def _is_one_statement(self, batch: Batch, began_at: float) -> bool:
        """Whether the batch is done by one statement, which is a transaction by itself.

        Where nothing is stored, be it by an error before the commit is sent, the usual way is taken
        from its beginning: it waits for a busy store, and has the words for each member's error.
        """
        statement = None if probes.is_armed else _one_statement(batch)
        if statement is None or self.connection.in_transaction:
            return False
        name, rows, first, answers = statement
        try:
            if len(rows) == 1:
                inserted = self.tx.run_row(name, rows[0])
            else:
                inserted = self.tx.run_rows_at_once(name, rows, first)
            if inserted == 0:
                batch.commit_sent = False
            elif inserted < len(rows):
                batch.conclude(StoreError(KEPT_OUT))
        except StoreError:
            raise
        except Exception as error:
            if not self._was_sent(batch, error):
                if isinstance(error, _IN_THE_WAY):
                    self._patience(began_at).nap()
                return False
            batch.conclude(error)
        for member, answer in zip(batch.members, answers, strict=True):
            member.answer = answer
        # Without this it was part of a transaction, and is not durable.
        return batch.commit_sent

    def _run_transactions(self, batch: Batch, began_at: float) -> None:
        """One transaction, or more if members have to run again."""
        if batch.members[0].is_exclusive:
            self._run_exclusively(batch.members[0])
            return
        is_over = self._attempt(batch, batch.members, began_at, merging=True)
        while not is_over and (left := batch.undecided()):
            is_over = self._attempt(batch, left, began_at, merging=False)

    def _attempt(self, batch: Batch, members: Members, began_at: float, *, merging: bool) -> bool:
        """One transaction; False when one of the members has brought it down."""
        name = members[0].context if len(members) == 1 else "group"
        try:
            self._begin(began_at)
            if probes.is_armed:
                probe(f"{name}.begun")
            live = run_members(self.tx, members, self._explained, merging=merging)
            if not live:
                return live is not None
            if probes.is_armed:
                probe(f"{name}.written")
            self._commit(batch)
        except apsw.Error as error:
            for member in members:
                member.fail(self._explained(error, member.context))
        finally:
            # Whatever ends an operation leaves no transaction.
            if self.connection.in_transaction:
                self._roll_back()
        if probes.is_armed:
            probe(f"{name}.committed")
        return True

    def _begin(self, began_at: float) -> None:
        if self.connection.in_transaction:
            self._roll_back()
        patience: Patience | None = None
        while True:
            try:
                self.tx.control("BEGIN IMMEDIATE")
                return
            except _IN_THE_WAY:
                patience = patience or self._patience(began_at)
                self.retries += 1
            patience.nap()

    def _patience(self, began_at: float) -> Patience:
        return Patience(self._limits_seconds, self._guard.blocker_pid, began_at)

    def _commit(self, batch: Batch) -> None:
        try:
            self.tx.control("COMMIT")
        except BaseException as error:
            if not self._was_sent(batch, error):
                raise
            batch.conclude(error)

    def _was_sent(self, batch: Batch, error: BaseException) -> bool:
        """Whether a commit that raised may be durable all the same.

        Only what never began to be committed is still open; and for a reader's mark in the
        wal-index, which a ProtocolError is about, SQLite asks before it writes anything.
        """
        if self.connection.in_transaction or isinstance(error, apsw.ProtocolError):
            batch.commit_sent = False
        return batch.commit_sent

    def _run_exclusively(self, operation: Operation[Any]) -> None:
        """Something that manages its own transaction, such as a flush, under the gate."""
        if not self._guard.canary_stands():
            raise SecondSqliteCopy(_LOST_LOCKS.format(self._path))
        try:
            operation.answer = operation.run(self.tx)
        except apsw.Error as error:
            raise self._explained(error, operation.context) from error
        finally:
            if self.connection.in_transaction:
                self._roll_back()

    def _explained(self, error: Exception, context: str) -> Exception:
        """An error of SQLite's in our words; any other is what it is."""
        if not isinstance(error, apsw.Error):
            return error
        told: StoreError = explained(error, context, self._path)
        if isinstance(error, apsw.ProtocolError):
            told = stalled(self._guard.blocker_pid(), _SQLITE_TRIES_SECONDS)
        told.__cause__ = error
        return told

    def _roll_back(self) -> None:
        """End what is left of a transaction."""
        try:
            self.tx.control("ROLLBACK")
        except apsw.Error as error:
            log.warning("rolling back failed: %s", error)

    def rescue_unlinked_log(self) -> None:
        """Flush a WAL that somebody unlinked: what it acknowledged is still in our hands."""
        with self._entrance, self._mutex:
            if self._is_closed or not self._guard.log_is_unlinked():
                return
            log.error("the WAL of %s was removed while in use; flushing what it holds", self._path)
            try:
                flush(self.connection, "truncate")
            except apsw.Error as error:
                log.error("flushing the removed WAL failed: %s", error)

    def close(self) -> None:
        """Close the connection; the caller has flushed what it wanted flushed."""
        with self._entrance, self._mutex:
            self._is_closed = True
            self.connection.close()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: wait until no operation is under way, and hold the next ones off."""
        if self._entrance.acquire(timeout=timeout_seconds):
            self._is_quiet = self._mutex.acquire(timeout=timeout_seconds)
            if not self._is_quiet:
                self._entrance.release()
        return self._is_quiet

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        if self._is_quiet:
            self._is_quiet = False
            self._mutex.release()
            self._entrance.release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connection.

        An idle one is closed, so that the child's own connections take real locks; closing one
        in a transaction would scribble into memory that is shared with the parent.
        """
        self._is_closed = True
        if self._is_quiet:
            self.connection.close()
        else:
            immortalize(self.connection)


def _one_statement(batch: Batch) -> Statement | None:
    """What says all of a batch at once, if its members are of one kind that can be said so."""
    as_statement = batch.members[0].as_statement
    if as_statement is None:
        return None
    for member in batch.members:
        if member.as_statement is not as_statement:
            return None
    return as_statement([member.inputs for member in batch.members])
