"""The writing connection: a group of operations, one synced transaction, an honest answer each."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from outlast.errors import QueueStalled, SecondSqliteCopy, StoreError, StoreReplaced
from outlast.host import kernel, probe_points
from outlast.host.probe_points import probe
from outlast.logs import logger
from outlast.store.sqlite.connect import explained
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.gate import NEVER, Blockage, Patience, WriteGate
from outlast.store.sqlite.log_length import FRAMES, log_words
from outlast.store.sqlite.members import run_alone, run_members
from outlast.store.sqlite.operation import Exclusive
from outlast.store.sqlite.pending import DECIDED, Group, Pending, all_succeed
from outlast.store.sqlite.readers import Closed, immortalize
from outlast.store.sqlite.reentry import is_ours
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wal import flush

log = logger("outlast.store")

_CLOSED = "this store was closed; open it again"

# Another has the write lock; or it stands still while it changes the wal-index, which SQLite says
# when it has tried for so long.
_IN_THE_WAY = (apsw.BusyError, apsw.ProtocolError)
_SQLITE_TRIES_SECONDS = 10.0


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
        self.tx = Transaction(connection)
        self._path = path
        self._guard = guard
        self._gate = gate
        self._limits_seconds = limits_seconds
        self._blockage = Blockage()
        self.mutex = threading.RLock()
        self.is_closed = False
        self.is_storing = False
        """Whether a task is on its way by a statement of its own; its thread has the mutex."""
        self._is_quiet = False
        # Who is told that the commit is sent: nobody's group, unless there is another.
        self.nobodys = self._group = Group(())
        self.commits = 0
        # Read without the detour of `wal_pages` where microseconds count.
        self.log_words = log_words(guard.index_descriptor(), connection)
        # Waiting is ours to do: the engine's own handler could not name whom we wait for.
        connection.set_busy_timeout(0)
        gate.blocker_pid = guard.blocker_pid
        gate.turns.commits = lambda: self.wal_pages
        connection.set_commit_hook(self._is_to_be_refused)

    @property
    def wal_pages(self) -> int:
        """Pages in the log."""
        return self.log_words[FRAMES]

    def _is_to_be_refused(self) -> bool:
        """Asked by the engine when all is written and nothing is sent; says that it will be."""
        if not self._guard.locks_stand():
            raise SecondSqliteCopy(self._lost_locks())
        self._group.commit_sent = True
        self.commits += 1
        return False

    def commit(self, group: Group) -> None:
        """Run a group's operations in one synced transaction and decide the fate of each.

        Raises what concerns all of them: a store that stalls, was replaced, or lost its locks.
        """
        with self.mutex:
            if self.is_closed:
                raise Closed(_CLOSED)
            # By calls, not as a block: a with statement takes three times as long.
            self._gate.enter()
            try:
                self._guard.check_files()
                self._group = group
                waiting = self._attempt(group, group.members)
                while waiting:
                    waiting = self._attempt(group, waiting, merging=False)
            finally:
                self._group = self.nobodys
                self._leave_the_gate()
            try:
                # While nobody can connect anew: the guard would know other files then.
                self._guard.check_files()
            except StoreReplaced as error:
                for member in group.members if group.commit_sent else ():
                    member.doubt(error)
                raise
        all_succeed(group.members)

    def _attempt(
        self, group: Group, members: Sequence[Pending[Any]], *, merging: bool = True
    ) -> Sequence[Pending[Any]]:
        """One transaction; returns who must run again because one of them brought it down."""
        connection, live = self._connection, None
        try:
            self._begin()
            if probe_points.is_armed:
                probe(f"{_named_for(members)}.begun")
            if len(members) == 1:
                live = run_alone(self.tx, members, self._path)
            else:
                live = run_members(self.tx, members, self._path, merging)
            if not live:
                return () if live is not None else _undecided(members)
            if probe_points.is_armed:
                probe(f"{_named_for(members)}.written")
            self._commit(group, live)
        except apsw.Error as error:
            self._fail(members, error)
        finally:
            # Whatever ends an operation, a signal's exception too, leaves no transaction.
            if connection.in_transaction:
                self._roll_back()
        if probe_points.is_armed:
            probe(f"{_named_for(members)}.committed")
        return ()

    def exclusively(self, pending: Pending[Any]) -> None:
        """Run something that manages its own transaction, such as a flush, under the gate."""
        operation = pending.operation
        assert isinstance(operation, Exclusive)
        with self.mutex:
            if self.is_closed:
                raise Closed(_CLOSED)
            self._gate.insist()
            try:
                self._guard.check_files()
                if not self._guard.canary_stands():
                    raise SecondSqliteCopy(self._lost_locks())
                if operation.is_flush:
                    # Whoever was inside without the gate has left, and who comes takes it.
                    self._begin()
                    self._roll_back()
                pending.ran(operation.action(self._connection))
            except apsw.Error as error:
                raise explained(error, operation.context, self._path) from error
            finally:
                if self._connection.in_transaction:
                    self._roll_back()
                self._leave_the_gate()
        pending.succeed()

    def _leave_the_gate(self) -> None:
        try:
            self._gate.leave()
        except BaseException:
            # A signal's exception may have struck before it did, and others would wait for us.
            self._gate.leave()
            raise

    def rescue_unlinked_log(self) -> None:
        """Flush a WAL that somebody unlinked: what it acknowledged is still in our hands."""
        with self.mutex:
            if self.is_closed or not self._guard.log_is_unlinked():
                return
            log.error("the WAL of %s was removed while in use; flushing what it holds", self._path)
            try:
                flush(self._connection, "truncate")
            except apsw.Error as error:
                log.error("flushing the removed WAL failed: %s", error)

    def _begin(self) -> None:
        if self._connection.in_transaction:
            self._roll_back()
        if (error := self._asked_to_begin()) is not None:
            self._wait_and_begin(error)
        self._blockage.last_met = NEVER

    def _asked_to_begin(self) -> apsw.Error | None:
        try:
            self.tx.control("BEGIN IMMEDIATE")
        except _IN_THE_WAY as error:
            return error
        return None

    def _wait_and_begin(self, error: apsw.Error | None) -> None:
        self._gate.insist()
        patience = Patience(self._limits_seconds, self._guard.blocker_pid, self._blockage)
        while error is not None:
            is_index = isinstance(error, apsw.ProtocolError)
            patience.wait(_SQLITE_TRIES_SECONDS if is_index else 0.0)
            error = self._asked_to_begin()

    def stalled(self) -> QueueStalled:
        """What to say when SQLite gave up on the wal-index; nothing was stored then."""
        pid = self._guard.blocker_pid()
        state = kernel.process_state_word(pid) if pid else ""
        return QueueStalled(pid, _SQLITE_TRIES_SECONDS, state, is_own=pid == os.getpid())

    @property
    def retries(self) -> int:
        """How often the write lock was taken when we wanted it, in spite of the gate."""
        return self._blockage.times_met

    def _lost_locks(self) -> str:
        return (
            f"{self._path} was opened by other means in this process (stdlib sqlite3, open(),"
            " a copy), which drops SQLite's locks; nothing was stored. Use apsw on this file"
        )

    def _commit(self, group: Group, members: Sequence[Pending[Any]]) -> None:
        try:
            self.tx.control("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction or isinstance(error, apsw.ProtocolError):
                # Only what never began to be committed is still open; and SQLite asks for a mark
                # before it writes anything.
                group.commit_sent = False
            if not group.commit_sent:
                raise
            for member in members:
                member.doubt(error)
            if not isinstance(error, apsw.Error):
                raise

    def _fail(self, members: Sequence[Pending[Any]], error: apsw.Error) -> None:
        for member in members:
            failure: StoreError = explained(error, member.operation.context, self._path)
            if isinstance(error, apsw.ProtocolError):
                failure = self.stalled()
            failure.__cause__ = error
            member.fail(failure)

    def _roll_back(self) -> None:
        """End what is left of a transaction."""
        try:
            self.tx.control("ROLLBACK")
        except apsw.Error as error:
            log.warning("rolling back failed: %s", error)

    def who_reads(self) -> tuple[str, bool]:
        """Who keeps the log from being moved, in words, and whether it is nobody but ourselves."""
        try:
            pids = self._guard.reader_pids()
        except StoreReplaced:
            return "", False
        names = ["this process" if pid == os.getpid() else f"process {pid}" for pid in pids]
        words = f", for an old state of it is being read by {' and '.join(names)}" if pids else ""
        return words, pids == [os.getpid()]

    def database_is_there(self) -> bool:
        """Whether the main file itself is still the one that was opened."""
        return self._guard.database_is_there()

    def close(self) -> None:
        """Close the connection; the caller has flushed what it wanted flushed."""
        with self.mutex:
            self._end()
            self._connection.close()

    def _end(self) -> None:
        """What others may do to the files from now on must not be met by a late look at the log."""
        self.is_closed = True
        self.log_words = [0] * len(self.log_words)

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: wait until no operation is under way, and hold the next ones off."""
        if is_ours(self.mutex):
            # A signal's handler forks on top of an operation; it may look as if none were begun.
            return False
        self._is_quiet = self.mutex.acquire(timeout=timeout_seconds)
        if self._is_quiet and self._connection.in_transaction:
            self.mutex.release()
            self._is_quiet = False
        return self._is_quiet

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        if self._is_quiet:
            self._is_quiet = False
            self.mutex.release()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's connection.

        An idle one is closed, so that the child's own connections take real locks; closing one
        in a transaction would scribble into memory that is shared with the parent.
        """
        self._end()
        if self._is_quiet:
            self._connection.close()
        else:
            immortalize(self._connection)


def _named_for(members: Sequence[Pending[Any]]) -> str:
    """What the probes of a transaction are called: by the operation that is alone in it."""
    return members[0].operation.context if len(members) == 1 else "group"


def _undecided(members: Sequence[Pending[Any]]) -> list[Pending[Any]]:
    return [member for member in members if member.stage != DECIDED]
