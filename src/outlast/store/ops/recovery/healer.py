"""Putting back the tasks of holders that are gone; one pass for start-up, detector and claim."""

import logging
from collections.abc import Sequence

from outlast.clock import boot_id
from outlast.domain.events import RECOVERY_PROGRESS, WORKER_DEAD
from outlast.domain.lifecycle import Cause
from outlast.domain.orphans import Judgement, Liveness, Sign
from outlast.errors import DatabaseError
from outlast.logs import about, logger
from outlast.store.access import Access
from outlast.store.ops.audit import Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.locks.recovery import (
    Looker,
    Rows,
    free_unheld,
    lost_with,
    tell_what_was_freed,
)
from outlast.store.ops.recovery import expiry, loss_causes
from outlast.store.ops.recovery.log import tell_what_moved, tell_what_stays
from outlast.store.ops.recovery.orphans import (
    any_running,
    ended_holders,
    expired,
    held_by,
    judged_peers,
    kinds_concerned,
    leases_ran_out,
    names,
    spared,
    task_rows,
    was_heard_of,
)
from outlast.store.ops.recovery.recovery_pass import (
    OrphanQuery,
    RecoveryPass,
    Tally,
    Write,
    alike,
    became,
)
from outlast.store.ops.settle import Moved, SameRows, TaskRow, move_alike
from outlast.store.presence import Judged
from outlast.store.records import Batch, Death, Healed, Unfit
from outlast.store.transaction import Transaction

SPARED_LISTED = 100
ALONE = Judgement(Liveness.DEAD, "this process has the store to itself")

log = logger("outlast.heal")


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
        peer, before, tally.ids = found.peer, (tally.put_back, tally.failed), []
        is_declared: list[bool] = []
        freed: Rows = []
        presence = self._access.presence
        signal = presence.exit_signal(peer)
        evidence = self._access.read(
            "forensics", lambda tx: loss_causes.evidence(tx, presence, found, signal)
        )

        def find(tx: Transaction, limit: int) -> Sequence[TaskRow]:
            if was_heard_of(tx, found, this.now, this.policy.patience):
                return []
            return held_by(tx, peer, limit, kinds_concerned(this.policy))

        def declare(tx: Transaction, moved: Sequence[Moved]) -> None:
            back, failed = became(moved)
            left = tally.put_back + back - before[0], tally.failed + failed - before[1]
            is_declared[:] = [self._declare(tx, found, this, freed, left)]

        def cause(task: TaskRow) -> Cause:
            if is_alive:
                return expiry.cause(task, this.policy, this.actor, is_forced=True)
            lost = loss_causes.loss(task, found, evidence, this.policy)
            return lost._replace(actor=this.actor)

        def ended() -> None:
            tally.locks_freed += len(freed)
            tell_what_was_freed(freed, this.now)
            if any(is_declared):
                moved = tally.put_back - before[0], tally.failed - before[1]
                self._note_death(found, this, tally, moved, evidence.seen_at_ms)

        self._in_batches(this, tally, OrphanQuery(find, cause, declare, peer.name, ended))

    def _note_death(
        self,
        found: Judged,
        this: RecoveryPass,
        tally: Tally,
        moved: tuple[int, int],
        seen_at_ms: int,
    ) -> None:
        """It is committed: its lock file may go, and people may know."""
        peer, (back, failed) = found.peer, moved
        self._access.presence.forget(peer)
        death = Death(
            peer.name, peer.incarnation, peer.pid, peer.host, found.judgement.because,
            seen_at_ms, back, failed, tuple(tally.ids),
        )  # fmt: skip
        tally.deaths.append(death)
        log.log(
            logging.WARNING if back or failed else logging.INFO,
            "worker %s (pid %d) is dead: %s; %d tasks put back, %d failed",
            peer.name, peer.pid, found.judgement.because, back, failed,
            extra=about(
                worker=peer.name, worker_pid=peer.pid, reason=found.judgement.because,
                tasks_put_back=back, tasks_failed=failed, run_id=this.run_id,
            ),
        )  # fmt: skip

    def _declare(
        self, tx: Transaction, found: Judged, this: RecoveryPass, freed: Rows, left: tuple[int, int]
    ) -> bool:
        """Mark it dead and free its locks; False if another did, or it was heard of."""
        freed[:] = []
        if was_heard_of(tx, found, this.now, this.policy.patience):
            return False
        peer = found.peer
        freed[:] = locks.free_all_of(
            tx, peer.incarnation, this.now, this.run_id, actor=this.operator
        )
        who = {"incarnation": peer.incarnation}
        if not tx.run("end_worker", who | {"state": "dead", "now": this.now.utc_ms}):
            return False
        back, failed = left
        data = {"pid": peer.pid, "host": peer.host, "because": found.judgement.because}
        data |= {"put_back": back, "failed": failed}
        add_event(
            tx, WORKER_DEAD, this.now, data | {"actor": this.actor},
            run_id=this.run_id, incarnation=peer.incarnation, worker=peer.name,
        )  # fmt: skip
        if this.operator is not None:
            act = Act(this.operator, this.source, "worker.mark_dead", peer.name, who | data)
            add_audit(tx, act, this.now)
        return True

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
        """Find and move within one transaction each, until a batch comes up short.

        A task that cannot be moved makes its batch fail; then fewer are moved at once, until it
        stands alone and is passed over.
        """
        size, unfit = this.policy.batch, dict[int, Unfit]()
        while True:
            batch = OrphanBatch(this, query, size, frozenset(unfit))
            try:
                moved = self._write("heal", batch)
            except DatabaseError as error:
                # A full disk is no task's fault, and the next one would fare no better.
                if not error.is_constraint or not batch.found:
                    raise
                if size > 1:
                    size //= 2
                    continue
                (task,) = batch.found
                unfit[task.seq] = Unfit(task.id, str(error))
                log.error(
                    "task %s cannot be taken back: %s", task.id, error,
                    extra=about(task_id=task.id, kind=task.kind, run_id=this.run_id),
                )  # fmt: skip
                continue
            size = min(2 * size, this.policy.batch)
            tell_what_moved(moved, this.now, this.run_id)
            tell_what_was_freed(batch.freed, this.now)
            tally.add(batch.found, moved)
            tally.locks_freed += len(batch.freed)
            if batch.is_last:
                tally.unfit += unfit.values()
                query.ended()
            if moved:
                # Whoever hears of it may raise, and then all of this has happened all the same.
                this.tell(Batch(tally.put_back, tally.failed, query.worker))
            if batch.is_last:
                return


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
