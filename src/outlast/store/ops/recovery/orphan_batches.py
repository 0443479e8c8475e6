"""Moving orphans in batches: each is found, decided on and moved within one transaction."""

from collections.abc import Sequence

from outlast.domain.events import RECOVERY_PROGRESS
from outlast.errors import DatabaseError
from outlast.logs import about, logger
from outlast.store.ops.audit import Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.locks.recovery import Rows, lost_with, tell_what_was_freed
from outlast.store.ops.recovery import expiry, loss_causes
from outlast.store.ops.recovery.log import tell_what_moved
from outlast.store.ops.recovery.recovery_pass import (
    OrphanQuery,
    RecoveryPass,
    Tally,
    Write,
    alike,
    became,
)
from outlast.store.ops.settle import Moved, SameRows, TaskRow, move_alike
from outlast.store.records import Batch, Unfit
from outlast.store.transaction import Transaction

log = logger("outlast.heal")


class OrphanBatches:
    """Moves one sort of orphans, batch by batch, until a batch comes up short.

    A task that cannot be moved makes its batch fail; then fewer are moved at once, until it
    stands alone and is passed over.
    """

    def __init__(self, write: Write, this: RecoveryPass, tally: Tally, query: OrphanQuery) -> None:
        self._write = write
        self._this = this
        self._tally = tally
        self._query = query
        self._size = this.policy.batch
        self._unfit: dict[int, Unfit] = {}

    def run(self) -> None:
        """Move all that there are."""
        is_last = False
        while not is_last:
            batch = OrphanBatch(self._this, self._query, self._size, frozenset(self._unfit))
            try:
                moved = self._write("heal", batch)
            except DatabaseError as error:
                # A full disk is no task's fault, and the next one would fare no better.
                if not error.is_constraint or not batch.found:
                    raise
                self._move_fewer(batch, error)
                continue
            self._size = min(2 * self._size, self._this.policy.batch)
            self._note(batch, moved)
            is_last = batch.is_last

    def _move_fewer(self, batch: "OrphanBatch", error: DatabaseError) -> None:
        if self._size > 1:
            self._size //= 2
            return
        (task,) = batch.found
        self._unfit[task.seq] = Unfit(task.id, str(error))
        log.error(
            "task %s cannot be taken back: %s", task.id, error,
            extra=about(task_id=task.id, kind=task.kind, run_id=self._this.run_id),
        )  # fmt: skip

    def _note(self, batch: "OrphanBatch", moved: Sequence[Moved]) -> None:
        """It is committed: count it and tell of it."""
        this, tally, query = self._this, self._tally, self._query
        tell_what_moved(moved, this.now, this.run_id, with_death=query.worker is not None)
        tell_what_was_freed(batch.freed, this.now)
        tally.add(batch.found, moved)
        tally.locks_freed += len(batch.freed)
        if batch.is_last:
            tally.unfit += self._unfit.values()
            query.ended()
        if moved:
            # Whoever hears of it may raise, and then all of this has happened all the same.
            this.tell(Batch(tally.put_back, tally.failed, query.worker))


class OrphanBatch:
    """One batch: what it found, and whether it was the last."""

    def __init__(
        self, this: RecoveryPass, query: OrphanQuery, size: int, passed_over: frozenset[int]
    ) -> None:
        self._this = this
        self._query = query
        self._size = size
        self._passed_over = passed_over
        self.found: Sequence[TaskRow] = ()
        self.endings: list[SameRows] = []
        self.freed: Rows = []
        self.is_last = False

    def __call__(self, tx: Transaction) -> list[Moved]:
        """Find, decide, move; the last one ends the holder too."""
        limit = self._size + len(self._passed_over)
        found = self._query.find(tx, limit)
        self.is_last = len(found) < limit
        if self._passed_over:
            found = [one for one in found if one.seq not in self._passed_over]
        self.found = found[: self._size]
        self.endings = loss_causes.with_last_steps(tx, alike(self.found, self._query.cause))
        expiry.add_boundaries(tx, self.endings, self._this.now)
        lost = lost_with(tx, self.found, self._this.now, self._query.worker is not None)
        moved = move_alike(tx, self.endings, self._this.now, self._this.run_id)
        self.freed = locks.free_lost(
            tx, lost, self._this.now, self._this.run_id, self._this.operator
        )
        if moved:
            self._note_progress(tx, moved)
        if self.is_last:
            self._query.last(tx, moved)
        return moved

    def _note_progress(self, tx: Transaction, moved: Sequence[Moved]) -> None:
        """A run's batch is an event of that run; a healing pass accounts for each of its own."""
        this, worker = self._this, self._query.worker
        back, failed = became(moved)
        data = {"put_back": back, "failed": failed, "actor": this.actor}
        if this.run_id is None:
            add_audit(tx, Act(this.actor, this.source, this.act, worker, data), this.now)
        else:
            add_event(tx, RECOVERY_PROGRESS, this.now, data, run_id=this.run_id, worker=worker)
