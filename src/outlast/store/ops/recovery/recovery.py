"""The verbs of recovery: what is there to be put back, putting it back, and whom it concerns."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from outlast.clock import Instant
from outlast.domain.operator_acts import Signature
from outlast.domain.orphans import Patience
from outlast.domain.recovery import Decision, LeftByRecovery, Suspect, likely_cause
from outlast.store.access import Access
from outlast.store.ops.locks.locks import Locks
from outlast.store.ops.recovery import orphans
from outlast.store.ops.recovery.healer import Healer
from outlast.store.ops.recovery.mark_dead import mark_dead
from outlast.store.ops.recovery.orphans import (
    ALL_KINDS,
    held_by,
    judged_peers,
    kinds_concerned,
    leases_ran_out,
    names,
)
from outlast.store.ops.recovery.plan import Planner
from outlast.store.ops.recovery.recovery_pass import RecoveryPass
from outlast.store.ops.recovery.runs import RecoveryRuns
from outlast.store.presence import Judged
from outlast.store.records import Batch, Death, Healed, RecoveryPolicy, Spared
from outlast.store.topics import ANYBODY
from outlast.store.transaction import Transaction

T = TypeVar("T")


class Recovery:
    """Takes back what the dead hold, and answers what there is to take back."""

    def __init__(self, access: Access, runs: RecoveryRuns, locks: Locks) -> None:
        self._access = access
        self._runs = runs
        self._locks = locks
        self._met: frozenset[str] = frozenset()
        self.healed_at_mono_ms: int | None = None
        """When a claim last looked for the dead, for all who share this store."""

    def heal(
        self,
        now: Instant,
        policy: RecoveryPolicy,
        *,
        run_id: int | None = None,
        tell: Callable[[Batch], None] | None = None,
        stopped: Callable[[Healed], None] | None = None,
        is_thorough: bool = False,
    ) -> Healed:
        """Put back the tasks of holders that are gone or whose leases ran out.

        `tell` hears of each committed batch, and may raise to stop between two; if anything stops
        the pass, `stopped` hears how far it went. A thorough pass also looks for running tasks
        that nobody holds.
        """
        healer = Healer(self._batch if run_id is None else self._batch_of_run, self._access)
        this = RecoveryPass(
            now, policy, run_id, tell or _unheard, is_thorough, stopped=stopped or _unheard
        )
        healed = healer.heal(this)
        self._access.came_up_empty = False
        return healed

    def reclaim(
        self, now: Instant, policy: RecoveryPolicy, silent_ms: int, is_forced: bool,
        by: Signature | None = None,
    ) -> int:  # fmt: skip
        """Take back what was silent for so long, and locks that ran out; how many tasks."""
        healer = Healer(self._batch, self._access)
        this = RecoveryPass(now, policy)
        if by is not None:
            this = this._replace(actor=by.actor, source=by.source, act="queue.reclaim")
        healer.free_unheld_locks(this)
        taken = healer.reclaim(this, silent_ms, is_forced)
        self._access.came_up_empty = False
        return taken

    def declare_dead(
        self, incarnation: str, now: Instant, policy: RecoveryPolicy, by: Signature, is_forced: bool
    ) -> Death | None:
        """Mark a worker dead by somebody's word, and put back what it held.

        None if it has ended or been heard of meanwhile; InvalidInput if it is alive, unless forced.
        """
        this = RecoveryPass(now, policy, actor=by.actor, source=by.source)
        healer = Healer(self._batch, self._access)
        ended = mark_dead(self._access, healer, this, incarnation, is_forced)
        self._access.came_up_empty = False
        return ended

    def _batch(self, context: str, operation: Callable[[Transaction], T]) -> T:
        """Batches are as long as a transaction may be, and so have it for themselves."""
        return self._access.write(context, operation, alone=True, wakes=ANYBODY)

    def _batch_of_run(self, context: str, operation: Callable[[Transaction], T]) -> T:
        result = self._batch(context, self._runs.with_beginning(operation))
        self._runs.began()
        return result

    def peers_have_come(self) -> bool:
        """Whether somebody counts as alive whom the last look did not judge; one read."""
        own = {"incarnation": self._access.presence.own_id}
        rows = self._access.read("looking for workers", lambda tx: tx.rows("living_peers", own))
        return not self._met.issuperset(row[0] for row in rows)

    def is_due(
        self, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether heal would find anything; reads only. A policy leaves some kinds alone."""
        kinds = ALL_KINDS if policy is None else kinds_concerned(policy)
        return (
            bool(self._dead(now, patience))
            or leases_ran_out(self._access, now, kinds)
            or self._locks.to_free(now, patience) > 0
        )

    def orphans_are_there(
        self, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether tasks are held by workers that are gone, or by leases that ran out.

        A policy leaves some kinds alone.
        """
        kinds = ALL_KINDS if policy is None else kinds_concerned(policy)
        dead = self._dead(now, patience)

        def held(tx: Transaction) -> bool:
            return any(held_by(tx, found.peer, 1, kinds) for found in dead)

        return self._access.read("looking for orphans", held) or leases_ran_out(
            self._access, now, kinds
        )

    def _dead(self, now: Instant, patience: Patience) -> list[Judged]:
        judged = judged_peers(self._access, now, patience)
        self._met = frozenset(found.peer.incarnation for found in judged)
        self._access.presence.watch(found.peer for found in judged if not found.is_dead)
        return [found for found in judged if found.is_dead]

    def plan(self, now: Instant, policy: RecoveryPolicy) -> Iterator[Decision]:
        """What recovery would do with each running task, and why; changes nothing."""
        # Who only looks has proven nothing, and may see who else is there.
        is_sole = policy.is_sole and not self._access.presence.other_users()
        policy = policy._replace(is_sole=is_sole)
        return Planner(self._access, now, policy).decisions()

    def dead_workers(self, now: Instant, patience: Patience) -> tuple[str, ...]:
        """The workers that count as alive and are dead."""
        return names(self._dead(now, patience))

    def left(self, limit: int) -> LeftByRecovery:
        """How many tasks are pending, and so many of those that were orphaned again and again."""

        def look(tx: Transaction) -> LeftByRecovery:
            pending = int(tx.value("pending_count"))
            count = int(tx.value("suspect_count")) if limit else 0
            return LeftByRecovery(pending, _suspects(tx, limit) if count else (), count)

        return self._access.read("counting", look)

    def held_count(self) -> int:
        """How many tasks that recovery put back wait for approval."""
        return int(self._access.read("counting", lambda tx: tx.value("held_recoveries")))

    def is_held(self, task_id: str) -> bool:
        """Whether recovery put a task back and it waits for approval."""
        held = {"id": task_id}
        return bool(
            self._access.read("reading a task", lambda tx: tx.value("is_held_by_recovery", held))
        )

    def suspects(self, limit: int) -> tuple[Suspect, ...]:
        """Tasks that were orphaned again and again, the worst first."""
        return self._access.read("reading tasks", lambda tx: _suspects(tx, limit))

    def suspect_count(self) -> int:
        """How many tasks were orphaned again and again."""
        return int(self._access.read("counting", lambda tx: tx.value("suspect_count")))

    def spared(self, now: Instant, policy: RecoveryPolicy, limit: int) -> Spared:
        """The orphans that a policy leaves alone because of their kind."""
        return orphans.spared(self._access, self._dead(now, policy.patience), now, policy, limit)


def _unheard(what: object) -> None:
    """Nobody wants to know."""


def _suspects(tx: Transaction, limit: int) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(
            task_id, kind, status, count,
            likely_cause(kind, crashes, expiries, bool(beats), error, beside=beside, others=others),
        )
        for (task_id, kind, status, count, crashes, expiries, beats, error, beside,
             others) in tx.rows("suspects", {"limit": limit})
    )  # fmt: skip
