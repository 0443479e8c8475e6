"""The engine on SQLite, opened to serve: commits, flushes, and connects anew when it must."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from outlast.domain.integrity import IntegrityResult
from outlast.errors import OutlastError, SecondSqliteCopy, StoreBusy, StoreReplaced
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.commit.batch import Batch
from outlast.store.commit.operation import Operation
from outlast.store.records import (
    ALREADY_OPEN,
    FlushResult,
    Opened,
    Principal,
    Statement,
)
from outlast.store.sqlite.check import check
from outlast.store.sqlite.connect import in_our_words
from outlast.store.sqlite.database import Database
from outlast.store.sqlite.looking_engine import LookingEngine
from outlast.store.sqlite.presence.own import PrincipalsPresence
from outlast.store.sqlite.readers import Closed
from outlast.store.sqlite.side_folder.session_marker import Marker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import UsersLock
from outlast.store.sqlite.wal import Flusher, flush, flush_what_is_due
from outlast.store.sqlite.write_gate import WriteGate
from outlast.store.topics import NOBODY
from outlast.store.transaction import Transaction

T = TypeVar("T")

EPOCH_SHIFT = 40

log = logger("outlast.store")


class ServingEngine(LookingEngine):
    """Commits batches, flushes the WAL, and connects anew when files or locks were lost."""

    def __init__(
        self,
        folder: SideFolder,
        users: UsersLock,
        settings: Settings,
        assists: Principal | None = None,
        opened: Opened = ALREADY_OPEN,
    ) -> None:
        self._gate = WriteGate(folder, (settings.stall_seconds, settings.write_timeout_seconds))
        try:
            self._database = Database(folder, self._gate, settings)
        except BaseException:
            self._gate.close()
            raise
        self._quieted = self._database
        super().__init__(self._database.readers, folder, users, settings)
        if assists:
            self._own = PrincipalsPresence(folder, assists)
        workspace = settings.workspace_for(folder.database)
        self._marker = Marker(folder, workspace, self._own.session_id)
        self.presence.serve(self._own, self._marker, opened)
        self._connecting = threading.Lock()
        self._flusher = Flusher(self._flush_due, self._who_reads, settings)
        epoch = self.read("reading the epoch", lambda tx: tx.value("get_meta", {"key": "epoch"}))
        self.traits = self.traits._replace(
            opened=opened, token_floor=int(epoch or 0) << EPOCH_SHIFT
        )

    @property
    def write_retries(self) -> int:
        """How often the writers of this process have found the write lock taken."""
        return self._gate.retries + self._database.writer.retries

    def flush(self, mode: str) -> FlushResult:
        """Move the content of the WAL into the main file; as an operation on its own."""
        return flush(self._database.writer.connection, mode)

    def check(self, is_quick: bool) -> IntegrityResult:
        """Check the file while it is served; as an operation on its own."""
        return check(self._database.writer.connection, is_quick)

    def run_user_statements(self, statements: Sequence[Statement]) -> None:
        """Run the caller's own statements inside the transaction that is open."""
        self._database.callers.run(statements)

    def run_batch(self, batch: Batch) -> None:
        """Commit and answer; then hint those who wait for what was done, and see to the WAL."""
        self._commit(batch)
        topics = NOBODY.union(*{one.wakes for one in batch.members if one.committed})
        try:
            if topics:
                self._wakeups.tell(topics)
        finally:
            batch.answer()
        self._flusher.look_at(self._database.writer)

    def _commit(self, batch: Batch) -> None:
        """Use the writer; one that lost its files or its locks is replaced for the next batch."""
        database = self._database
        try:
            database.writer.run_batch(batch)
        except Closed:
            if not self._connected_anew(database):
                raise
            self._commit(batch)
        except (SecondSqliteCopy, StoreReplaced):
            self._reconnect(database)
            raise

    def _flush_due(self, mode: str, least_frames: int) -> FlushResult | None:
        """Between two batches, on the thread that commits them."""

        def action(tx: object) -> FlushResult | None:
            return flush_what_is_due(self._database.writer.connection, mode, least_frames)

        operation = Operation(None, "flushing the WAL", action, alone=True, is_exclusive=True)
        self._commit(Batch((operation,)))
        return operation.result()

    def _who_reads(self) -> tuple[str, bool]:
        return self._database.guard.who_reads()

    def read(self, context: str, query: Callable[[Transaction], T]) -> T:
        """Run a query on one consistent snapshot."""
        database = self._database
        try:
            return super().read(context, query)
        except Closed:
            if not self._connected_anew(database):
                raise
            return self.read(context, query)

    def changes(self) -> int:
        """A number that changes with every commit, by whomever."""
        database = self._database
        try:
            return super().changes()
        except Closed:
            if not self._connected_anew(database):
                raise
            return self.changes()

    def _connected_anew(self, before: Database) -> bool:
        """Whether other connections took the place of these; waits for who is at it."""
        with self._connecting:
            return self._database is not before and not self.closed

    def _reconnect(self, failed: Database) -> None:
        """After locks, WAL or side folder were lost, only new connections know what they hold.

        With the main file itself gone there is nothing to connect to: this store has ended.
        """
        with self._connecting:
            if self._database is not failed or self.closed:
                return
            if not failed.guard.database_is_there():
                self.closed = True
                return
            try:
                with in_our_words("connecting anew", self._folder.database):
                    self._connect_anew(failed)
            except OutlastError as error:
                log.warning("connecting anew failed, this store has ended: %s", error)
                self.closed = True

    def _connect_anew(self, failed: Database) -> None:
        failed.writer.rescue_unlinked_log()
        failed.disconnect()
        self._folder.make()
        self._wakeups.look_anew()
        self._join_the_users()
        self._database = Database(self._folder, self._gate, self._settings, failed.guard)
        self._readers = self._database.readers

    def _join_the_users(self) -> None:
        """As at opening; who is alone has its lock still, unless the side folder went away."""
        if not self._settings.exclusive:
            self._users.share(self._settings.open_timeout_seconds)
        elif not (self._own.is_assisting or self._users.regain_exclusive()):
            raise StoreBusy(f"{self._folder.database} is no longer ours alone")

    def before_close(self) -> None:
        """Flush a WAL that was unlinked: what it acknowledged is still in our hands."""
        self._database.writer.rescue_unlinked_log()

    def close(self, *, has_left: bool) -> None:
        """Let go of the files; the caller has flushed what it wanted flushed."""
        self.closed = True
        self._wakeups.close()
        self._database.close()
        if has_left:
            self._marker.clear()
        self._own.end(has_left)
        self._gate.close()
        self._users.release()

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        # The committer may connect anew before resume().
        self._quieted = self._database
        return self._quieted.quiesce(timeout_seconds)

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self._quieted.resume()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without unlocking it."""
        self.closed = True
        with ExitStack() as letting_go:
            # Each of them, whatever becomes of the others.
            letting_go.callback(self._turns.abandon)
            letting_go.callback(self._users.release)
            letting_go.callback(self._gate.close)
            letting_go.callback(self._own.abandon)
            letting_go.callback(self._database.abandon)
            letting_go.callback(self._wakeups.abandon)
