"""What a dead worker held: how it is found, why it moves, and the declaration that ends it."""

import logging
from collections.abc import Sequence

from outlast.domain.events import WORKER_DEAD
from outlast.domain.lifecycle import Cause
from outlast.logs import about, logger
from outlast.store.access import Access
from outlast.store.ops.audit import Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.locks import rows as locks
from outlast.store.ops.locks.recovery import Rows, tell_what_was_freed
from outlast.store.ops.recovery import expiry, loss_causes
from outlast.store.ops.recovery.orphans import held_by, kinds_concerned, was_heard_of
from outlast.store.ops.recovery.recovery_pass import OrphanQuery, RecoveryPass, Tally, became
from outlast.store.ops.settle import Moved, TaskRow
from outlast.store.presence import Judged
from outlast.store.records import Death
from outlast.store.transaction import Transaction

log = logger("outlast.heal")


class DeadWorkersTasks:
    """One sort of orphans; the transaction that takes the last of them declares the worker dead."""

    def __init__(
        self, access: Access, found: Judged, this: RecoveryPass, tally: Tally, *, is_alive: bool
    ) -> None:
        self._presence = access.presence
        self._found = found
        self._this = this
        self._tally = tally
        self._before = tally.put_back, tally.failed
        self._is_alive = is_alive
        self._is_declared = False
        self._freed: Rows = []
        signal = self._presence.exit_signal(found.peer)
        self._evidence = access.read(
            "forensics", lambda tx: loss_causes.evidence(tx, self._presence, found, signal)
        )

    def query(self) -> OrphanQuery:
        """Its tasks as those who move orphans know them."""
        return OrphanQuery(
            self._find, self._cause, self._declare, self._found.peer.name, self._ended
        )

    def _find(self, tx: Transaction, limit: int) -> Sequence[TaskRow]:
        policy = self._this.policy
        if was_heard_of(tx, self._found, self._this.now, policy.patience):
            return []
        return held_by(tx, self._found.peer, limit, kinds_concerned(policy))

    def _cause(self, task: TaskRow) -> Cause:
        this = self._this
        if self._is_alive:
            return expiry.cause(task, this.policy, this.actor, is_forced=True)
        lost = loss_causes.loss(task, self._found, self._evidence, this.policy)
        return lost._replace(actor=this.actor)

    def _so_far(self) -> tuple[int, int]:
        return self._tally.put_back - self._before[0], self._tally.failed - self._before[1]

    def _declare(self, tx: Transaction, moved: Sequence[Moved]) -> None:
        """Mark it dead and free its locks, unless another did, or it was heard of."""
        found, this, peer = self._found, self._this, self._found.peer
        self._is_declared, self._freed = False, []
        if was_heard_of(tx, found, this.now, this.policy.patience):
            return
        self._freed = locks.free_all_of(
            tx, peer.incarnation, this.now, this.run_id, actor=this.operator
        )
        who = {"incarnation": peer.incarnation}
        if not tx.run("end_worker", who | {"state": "dead", "now": this.now.utc_ms}):
            return
        (back, failed), before = became(moved), self._so_far()
        data = {"pid": peer.pid, "host": peer.host, "because": found.judgement.because}
        data |= {"put_back": before[0] + back, "failed": before[1] + failed}
        add_event(
            tx, WORKER_DEAD, this.now, data | {"actor": this.actor},
            run_id=this.run_id, incarnation=peer.incarnation, worker=peer.name,
        )  # fmt: skip
        if this.operator is not None:
            act = Act(this.operator, this.source, "worker.mark_dead", peer.name, who | data)
            add_audit(tx, act, this.now)
        self._is_declared = True

    def _ended(self) -> None:
        self._tally.locks_freed += len(self._freed)
        tell_what_was_freed(self._freed, self._this.now)
        if self._is_declared:
            self._note_death()

    def _note_death(self) -> None:
        """It is committed: its lock file may go, and people may know."""
        peer, because = self._found.peer, self._found.judgement.because
        back, failed = self._so_far()
        self._presence.forget(peer)
        death = Death(
            peer.name, peer.incarnation, peer.pid, peer.host, because,
            self._evidence.seen_at_ms, back, failed, tuple(self._tally.ids),
        )  # fmt: skip
        self._tally.deaths.append(death)
        log.log(
            logging.WARNING if back or failed else logging.INFO,
            "worker %s (pid %d) is dead: %s; %d tasks put back, %d failed",
            peer.name, peer.pid, because, back, failed,
            extra=about(
                worker=peer.name, worker_pid=peer.pid, reason=because,
                tasks_put_back=back, tasks_failed=failed, run_id=self._this.run_id,
            ),
        )  # fmt: skip
