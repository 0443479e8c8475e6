"""One process's serving of one file: connections, the write path, flushes, closing, forks."""

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, TypeVar

import apsw

from outlast.clock import Instant
from outlast.domain.lifecycle import RECOVERY, Cause, Outcome
from outlast.errors import (
    OutlastError,
    SecondSqliteCopy,
    StoreBusy,
    StoreReplaced,
)
from outlast.logs import logger
from outlast.settings import Settings
from outlast.store.ops import locks, settle
from outlast.store.ops.counters import Counts, add_to_counters
from outlast.store.records import ALREADY_OPEN, FlushResult, Opened, Principal
from outlast.store.sqlite.background import Background
from outlast.store.sqlite.connect import in_our_words
from outlast.store.sqlite.database import Database
from outlast.store.sqlite.gate import WriteGate
from outlast.store.sqlite.group import GroupCommit
from outlast.store.sqlite.operation import ANYBODY, NOBODY, Exclusive, Operation, Together
from outlast.store.sqlite.pending import Group, Pending
from outlast.store.sqlite.presence.own import Assisting, Holding
from outlast.store.sqlite.readers import Closed
from outlast.store.sqlite.reads import SqliteReads
from outlast.store.sqlite.reentry import is_ours, refuse_inside
from outlast.store.sqlite.short_way import ShortWay
from outlast.store.sqlite.side_folder.session_marker import Marker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import OpenersLock
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import Topic
from outlast.store.sqlite.wal import Flusher, flush, flush_what_is_due

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
        self._gate = WriteGate(folder, settings.stall_seconds, settings.write_timeout_seconds)
        try:
            self._database = Database(folder, self._gate, settings)
        except BaseException:
            self._gate.close()
            raise
        super().__init__(self._database.readers, folder, openers)
        self._wakeups.heed(self._gate.words)
        self._holding = Assisting(folder, assists) if assists else Holding(folder)
        self._workspace = settings.workspace_for(folder.database)
        self._marker = Marker(folder, self._workspace, self._holding.session_id)
        self._run_id: int | None = None
        self._is_on_record = False
        self._came_up_empty = False
        self.healed_at_mono_ms: int | None = None
        self._connecting = threading.Lock()
        self.tallies = Counts()
        self._background = Background()
        self._flusher = Flusher(self._flush_due, self._background.later, settings)
        limits = (settings.max_waiting_writes, settings.write_timeout_seconds)
        self._group = GroupCommit(self._commit, self._after, self._background.later, limits)
        self._group.is_inside = partial(is_ours, self._database.writer.mutex)
        self._short_way = ShortWay(
            self._group, self._gate, self._wakeups, self._flusher, self._reconnect
        )
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
        """Move the log's content into the main file."""
        return self._group.submit(
            Exclusive("flushing the WAL", lambda sqlite: flush(sqlite, mode), is_flush=True)
        ).result()

    def _flush_due(self, mode: str, least_frames: int) -> FlushResult | None:
        def action(sqlite: apsw.Connection) -> FlushResult | None:
            return flush_what_is_due(sqlite, mode, least_frames)

        return self._group.submit(Exclusive("flushing the WAL", action, is_flush=True)).result()

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
        return self._group.submit(
            Operation(context, operation, task_ids, alone=alone, wakes=wakes)
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
    ) -> Pending[T]:
        """The future of an operation."""
        return self._group.submit(
            Operation(context, operation, task_ids, alone, together, inputs, wakes, in_doubt)
        )

    def _commit(self, group: Group) -> None:
        """Use the writer; one that lost its files or its locks is replaced for the next group."""
        database = self._database
        try:
            for first in group.members:
                if first.operation.is_exclusive:
                    database.writer.exclusively(first)
                else:
                    database.writer.commit(group)
                break
        except Closed:
            if not self._connected_anew(database):
                raise
            self._commit(group)
        except (SecondSqliteCopy, StoreReplaced):
            self._reconnect(database)
            raise

    def _after(self, group: Group) -> None:
        """The group is answered: hint those who wait for what it did, and see to the log."""
        wakes = {one.operation.wakes for one in group.members if one.committed}
        topics = NOBODY.union(*wakes)
        if topics:
            self._wakeups.tell(topics)
        self._flusher.look_at(self._database.writer)

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
        self._group.is_inside = partial(is_ours, self._database.writer.mutex)

    def _join_the_openers(self) -> None:
        """As at opening; who is alone has its lock still, unless the side folder went away."""
        if not self.is_exclusive:
            self._openers.share(self._settings.open_timeout_seconds)
        elif not (self._holding.is_assisting or self._openers.regain_exclusive()):
            raise StoreBusy(f"{self._folder.database} is no longer ours alone")

    def refuse_inside(self) -> None:
        """Closing on top of a call of this same thread would pull its files away under it."""
        self._group.refuse_inside()
        refuse_inside(self._short_way, ShortWay.stores.__code__)

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
        self._background.close()
        self._wakeups.close()
        self._database.close()
        if has_left:
            self._marker.clear()
        self._holding.end(has_left)
        self._gate.close()
        self._openers.release()
        self._take_the_bell_down()

    def _take_the_bell_down(self) -> None:
        """A FIFO is in the way of whoever copies the folder: the last to leave removes it."""
        try:
            with suppress(OSError, OutlastError):
                if self._folder.bell.exists() and self._openers.try_exclusive():
                    self._folder.bell.unlink()
        finally:
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

    def quiesce(self, timeout_seconds: float) -> bool:
        """Before a fork: no operation under way, and none begun until resume()."""
        return self._database.quiesce(timeout_seconds)

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
