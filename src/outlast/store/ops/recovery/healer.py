"""Putting back the tasks of holders that are gone; one pass for start-up, detector and claim."""

from collections.abc import Sequence

from outlast.clock import boot_id
from outlast.domain.lifecycle import Cause
from outlast.domain.orphans import Judgement, Liveness, Sign
from outlast.store.access import Access
from outlast.store.ops.locks.recovery import Looker, free_unheld
from outlast.store.ops.recovery import expiry, loss_causes
from outlast.store.ops.recovery.dead_worker import DeadWorkersTasks
from outlast.store.ops.recovery.log import tell_what_stays
from outlast.store.ops.recovery.orphan_batches import OrphanBatches
from outlast.store.ops.recovery.orphans import (
    any_running,
    ended_holders,
    expired,
    judged_peers,
    kinds_concerned,
    leases_ran_out,
    names,
    spared,
    task_rows,
)
from outlast.store.ops.recovery.recovery_pass import OrphanQuery, RecoveryPass, Tally, Write
from outlast.store.ops.settle import TaskRow
from outlast.store.presence import Judged
from outlast.store.records import Healed
from outlast.store.transaction import Transaction

SPARED_LISTED = 100
ALONE = Judgement(Liveness.DEAD, "this process has the store to itself")


class Healer:
    """Takes back what incarnations that are gone still hold."""

    def __init__(self, write: Write, access: Access) -> None:
        self._write = write
        self._access = access

    def heal(self, this: RecoveryPass) -> Healed:
        """Workers are judged first, then their tasks are moved, in batches of their own."""
        tally = Tally()
        try:
            return self._heal(this, tally)
        except BaseException:
            this.stopped(tally.so_far())
            raise

    def _heal(self, this: RecoveryPass, tally: Tally) -> Healed:
        patience = this.policy.patience
        judged = judged_peers(self._access, this.now, patience)
        if this.policy.is_sole:
            # Nothing they were heard to say counts: nobody who lives could have said it, but for
            # ourselves, if our first claim came after this pass began.
            judged = [
                found
                if found.sign is Sign.LOCK_HELD
                and self._access.presence.is_this_process(found.peer)
                else found._replace(judgement=ALONE, sign=Sign.LOCK_FREE)
                for found in judged
            ]
        dead = [found for found in judged if found.is_dead]
        dead += ended_holders(self._access, this.now, patience)
        alive = [found for found in judged if not found.is_dead]
        tell_what_stays(self._access, (*alive, *dead), this.now, this.policy)
        for found in dead:
            self.end_dead_worker(found, this, tally)
        if leases_ran_out(self._access, this.now):
            self._take_back_expired(this, tally)
        tally.locks_freed += self.free_unheld_locks(this)
        if this.is_thorough and any_running(self._access):
            for query in ("situations_unheld", "situations_of_nobody"):
                self._take_back_unheld(query, this, tally)
        stale = [found for found in judged if found.judgement.liveness is Liveness.STALE]
        left = spared(self._access, dead, this.now, this.policy, SPARED_LISTED)
        return tally.so_far()._replace(
            skipped=left.number, skipped_ids=left.task_ids, stale_workers=names(stale)
        )

    def end_dead_worker(
        self, found: Judged, this: RecoveryPass, tally: Tally, *, is_alive: bool = False
    ) -> None:
        """Take back its tasks; the transaction that takes the last of them declares it dead."""
        tally.ids = []
        dead = DeadWorkersTasks(self._access, found, this, tally, is_alive=is_alive)
        self._in_batches(this, tally, dead.query())

    def reclaim(self, this: RecoveryPass, silent_ms: int, is_forced: bool) -> int:
        """Take back what was silent for so long: leases that ran out, by force living ones too."""
        tally = Tally()
        values = {
            "now": this.now.utc_ms,
            "mono": this.now.mono_ms,
            "boot_id": boot_id(),
            "silent_ms": silent_ms,
            "force": int(is_forced),
        }

        def find(tx: Transaction, limit: int) -> Sequence[TaskRow]:
            return task_rows(tx, "situations_silent", values | {"limit": limit})

        def cause(task: TaskRow) -> Cause:
            return expiry.cause(task, this.policy, this.actor, is_forced)

        query = OrphanQuery(find, cause)
        self._in_batches(this, tally, query)
        return tally.put_back + tally.failed

    def free_unheld_locks(self, this: RecoveryPass) -> int:
        """Free named locks whose time has passed, and those that the dead have left."""
        looker = Looker(self._access.presence, this.now, this.policy.patience)
        looked = self._access.read("looking at locks", looker.look)
        return free_unheld(looker, looked, lambda free: self._write("heal", free), this.run_id)

    def _take_back_expired(self, this: RecoveryPass, tally: Tally) -> None:
        def find(tx: Transaction, limit: int) -> Sequence[TaskRow]:
            return expired(tx, this.now, limit, kinds_concerned(this.policy))

        query = OrphanQuery(find, lambda task: expiry.cause(task, this.policy))
        self._in_batches(this, tally, query)

    def _take_back_unheld(self, statement: str, this: RecoveryPass, tally: Tally) -> None:
        def find(tx: Transaction, limit: int) -> Sequence[TaskRow]:
            return task_rows(tx, statement, {"limit": limit} | kinds_concerned(this.policy))

        if not self._access.read("looking for unheld tasks", lambda tx: find(tx, 1)):
            return
        query = OrphanQuery(find, lambda task: loss_causes.nobodys(task, this.policy))
        self._in_batches(this, tally, query)

    def _in_batches(self, this: RecoveryPass, tally: Tally, query: OrphanQuery) -> None:
        OrphanBatches(self._write, this, tally, query).run()
