"""One process's serving of one file: connections, the write path, flushes, closing, forks."""

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TypeVar

import apsw

from outlast.clock import Instant
from outlast.domain.lifecycle import RECOVERY, Cause, Outcome
from outlast.errors import (
    OutlastError,
    SecondSqliteCopy,
    StoreBusy,
    StoreError,
    StoreReplaced,
)
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.commit.batch import Batch
from outlast.store.commit.commit_queue import INSIDE, CommitQueue
from outlast.store.commit.operation import NOBODY, Operation, Together
from outlast.store.ops import locks, settle
from outlast.store.ops.counters import Counts, add_to_counters
from outlast.store.records import ALREADY_OPEN, FlushResult, Opened, Principal
from outlast.store.sqlite.connect import in_our_words
from outlast.store.sqlite.database import Database
from outlast.store.sqlite.presence.own import Assisting, Holding
from outlast.store.sqlite.readers import Closed
from outlast.store.sqlite.reads import SqliteReads
from outlast.store.sqlite.side_folder.session_marker import Marker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import OpenersLock
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import ANYBODY, Topic
from outlast.store.sqlite.wal import Flusher, flush, flush_what_is_due
from outlast.store.sqlite.write_gate import WriteGate

T = TypeVar("T")

EPOCH_SHIFT = 40
# Not the worker's own doing: a lease given back for it must not look as if it had settled.
GIVE_BACK = Cause(Outcome.RELEASE, RECOVERY)

log = logger("outlast.store")


class Serving(SqliteReads):
    """What every verb of the store stands on; shared by all Outlast objects of the process."""

    def __init__(
        self,
        folder: SideFolder,
        openers: OpenersLock,
        settings: Settings,
        assists: Principal | None = None,
        opened: Opened = ALREADY_OPEN,
    ) -> None:
        self.opened = opened
        self._settings = settings
        limits_seconds = (settings.stall_seconds, settings.write_timeout_seconds)
        self._gate = WriteGate(folder, limits_seconds)
        try:
            self._database = Database(folder, self._gate, settings)
        except BaseException:
            self._gate.close()
            raise
        super().__init__(self._database.readers, folder, openers)
        self._holding = Assisting(folder, assists) if assists else Holding(folder)
        self._workspace = settings.workspace_for(folder.database)
        self._marker = Marker(folder, self._workspace, self._holding.session_id)
        self._run_id: int | None = None
        self._is_on_record = False
        self._came_up_empty = False
        self.healed_at_mono_ms: int | None = None
        self._connecting = threading.Lock()
        self.tallies = Counts()
        self._flusher = Flusher(self._flush_due, settings)
        limits = (settings.max_waiting_writes, settings.write_timeout_seconds)
        self._queue = CommitQueue(self._run_batch, limits)
        epoch = self._read("reading the epoch", lambda tx: tx.value("get_meta", {"key": "epoch"}))
        self._token_floor = int(epoch or 0) << EPOCH_SHIFT

    @property
    def synchronous(self) -> str:
        """How durable a commit is here."""
        return self._settings.synchronous

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody else has the store open for as long as this one serves."""
        return self._settings.exclusive

    def incarnation_id(self) -> str:
        """This process's own incarnation, or nothing while it holds no tasks."""
        return self._holding.id

    def flush_wal(self, mode: str) -> FlushResult:
        """Move the WAL's content into the main file."""
        return self._exclusive("flushing the WAL", lambda sqlite: flush(sqlite, mode)).result()

    def _flush_due(self, mode: str, least_frames: int) -> FlushResult | None:
        """The same between two batches, on the thread that commits them."""

        def action(sqlite: apsw.Connection) -> FlushResult | None:
            return flush_what_is_due(sqlite, mode, least_frames)

        operation = self._exclusive("flushing the WAL", action)
        self._commit(Batch((operation,)))
        return operation.outcome()

    def _exclusive(self, context: str, action: Callable[[apsw.Connection], T]) -> Operation[T]:
        """What manages its own transaction on the writing connection."""
        return Operation(self._queue, context, action, alone=True, is_exclusive=True)

    def retries(self) -> int:
        """How often the writers of this process have found the write lock taken."""
        return self._gate.retries + self._database.writer.retries

    def _write(
        self,
        context: str,
        operation: Callable[[Transaction], T],
        task_ids: Iterable[str] = (),
        *,
        alone: bool = False,
        wakes: frozenset[Topic] = NOBODY,
    ) -> T:
        """Commit an operation and wait for it."""
        return Operation(
            self._queue, context, operation, task_ids, alone=alone, wakes=wakes
        ).result()

    def _submit(
        self,
        context: str,
        operation: Callable[[Transaction], T],
        task_ids: Iterable[str] = (),
        *,
        alone: bool = False,
        together: Together | None = None,
        inputs: Any = None,
        wakes: frozenset[Topic] = NOBODY,
        in_doubt: Callable[[], None] | None = None,
    ) -> Operation[T]:
        """An operation that is committed when somebody asks for its result or awaits it."""
        return Operation(
            self._queue, context, operation, task_ids, alone, together, inputs, wakes, in_doubt
        )

    def _run_batch(self, batch: Batch) -> None:
        """Commit and answer; then hint those who wait for what was done, and see to the WAL."""
        self._commit(batch)
        batch.answer()
        wakes = {one.wakes for one in batch.members if one.committed}
        topics = NOBODY.union(*wakes)
        if topics:
            self._wakeups.tell(topics)
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

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T:
        database = self._database
        try:
            return super()._read(context, query)
        except Closed:
            if not self._connected_anew(database):
                raise
            return self._read(context, query)

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
        """After locks, log or side folder were lost, only new connections know what they hold.

        With the main file itself gone there is nothing to connect to: this store has ended.
        """
        with self._connecting:
            if self._database is not failed or self.closed:
                return
            if not failed.writer.database_is_there():
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
        self._join_the_openers()
        self._database = Database(self._folder, self._gate, self._settings, failed.guard)
        self._readers = self._database.readers

    def _join_the_openers(self) -> None:
        """As at opening; who is alone has its lock still, unless the side folder went away."""
        if not self.is_exclusive:
            self._openers.share(self._settings.open_timeout_seconds)
        elif not (self._holding.is_assisting or self._openers.regain_exclusive()):
            raise StoreBusy(f"{self._folder.database} is no longer ours alone")

    def refuse_inside(self) -> None:
        """The thread that commits cannot close what it works on, and wait for itself."""
        if self._queue.is_inside():
            raise StoreError(INSIDE)

    def close(self, now: Instant) -> None:
        """Put back what is still held, leave the workers' list, flush, and let go of the files."""
        has_left = False
        self._database.writer.rescue_unlinked_log()
        if not self.closed:
            try:
                self._before_leaving()
                self._leave(now)
                has_left = True
                self.flush_wal("truncate")
            except OutlastError as error:
                log.warning("closing the store: %s; recovery will see to the rest", error)
        self.closed = True
        self._queue.close()
        self._wakeups.close()
        self._database.close()
        if has_left:
            self._marker.clear()
        self._holding.end(has_left)
        self._gate.close()
        self._openers.release()

    def _before_leaving(self) -> None:
        """What a process knows and no row shows goes on record."""
        self.store_counts()

    def store_counts(self) -> None:
        """Add what this process counted to what is stored, if it is anything."""
        with self.tallies.being_stored(self.retries()) as numbers:
            if numbers:
                self._write("fold", lambda tx: add_to_counters(tx, numbers))

    def _leave(self, now: Instant) -> None:
        """No claim comes after this one transaction, so nothing is left behind."""

        if self._holding.is_assisting:
            return
        incarnation = self._holding.end_soon()

        def operation(tx: Transaction) -> None:
            values = {"incarnation": incarnation, "limit": -1}
            held = [settle.Standing(*row) for row in tx.rows("situations_of_incarnation", values)]
            settle.move(tx, [(standing, GIVE_BACK, None) for standing in held], now)
            locks.leave_all_of(tx, incarnation)
            ending = {"incarnation": incarnation, "state": "left", "now": now.utc_ms}
            tx.run("end_worker", ending)
            session = {"id": self._run_id, "incarnation": self._holding.session_id}
            tx.run("end_session", session | {"now": now.utc_ms})

        if incarnation or self._run_id:
            self._write("close", operation, wakes=ANYBODY)

    def close_at_exit(self, now: Instant, was_interrupted: bool) -> None:
        """Leave politely when nothing is held, or on Ctrl-C; otherwise this exit is a crash.

        Work that ends its own process must be charged for it, or it would come back for ever.
        """
        own = {"incarnation": self.incarnation_id(), "limit": 1}
        held = self._read("leaving", lambda tx: tx.row("situations_of_incarnation", own))
        if self._holding.is_assisting or was_interrupted or held is None:
            self.close(now)
        else:
            # Whoever still writes finds no threads any more, which end with the interpreter.
            self._queue.retire(self._settings.write_timeout_seconds)

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        return self._database.quiesce(0 if self._queue.is_inside() else timeout_seconds)

    def resume(self) -> None:
        """After the fork, in the parent: go on."""
        self._database.resume()

    def abandon(self) -> None:
        """In a forked child: let go of what was inherited without unlocking it."""
        self.closed = True
        with ExitStack() as letting_go:
            # Each of them, whatever becomes of the others.
            letting_go.callback(self._openers.release)
            letting_go.callback(self._gate.close)
            letting_go.callback(self._holding.abandon)
            letting_go.callback(self._database.abandon)
            letting_go.callback(self._wakeups.abandon)
            letting_go.callback(self._queue.abandon)
