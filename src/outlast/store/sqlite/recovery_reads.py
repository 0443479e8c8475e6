"""What can be asked of recovery without opening the store to serve."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.orphans import Patience
from outlast.domain.recovery import (
    Decision,
    LeftByRecovery,
    RecoveredTask,
    RecoveryReport,
    Suspect,
    likely_cause,
)
from outlast.store.ops import recovery_runs
from outlast.store.ops.orphans import (
    ALL_KINDS,
    held_by,
    judged_peers,
    kinds_concerned,
    leases_ran_out,
    names,
    spared,
)
from outlast.store.ops.plan import Planner
from outlast.store.records import RecoveryPolicy, Spared
from outlast.store.sqlite.presence.peers import Judged
from outlast.store.sqlite.readers import Readers
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.side_folder.users_lock import OpenersLock
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.notify import Wakeups

T = TypeVar("T")


class Asked(Protocol):
    """What the questions below are asked of."""

    _readers: Readers
    _folder: SideFolder
    _openers: OpenersLock
    _wakeups: Wakeups
    _met: frozenset[str]

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...
    def _dead(self, now: Instant, patience: Patience) -> list[Judged]: ...
    def locks_to_free(self, now: Instant, patience: Patience) -> int:
        """How many named locks nobody holds any more."""
        ...

    def incarnation_id(self) -> str:
        """This process's own incarnation, or nothing while it holds nothing."""
        ...


class RecoveryReading:
    """The questions about orphans and runs, for a store that can be read."""

    _met: frozenset[str] = frozenset()
    """The incarnations that were judged at the last look."""

    def peers_have_come(self: Asked) -> bool:
        """Whether somebody counts as alive whom the last look did not judge; one read."""
        own = {"incarnation": self.incarnation_id()}
        rows = self._read("looking for workers", lambda tx: tx.rows("living_peers", own))
        return not self._met.issuperset(row[0] for row in rows)

    def healing_is_due(
        self: Asked, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether heal would find anything; reads only. A policy leaves some kinds alone."""
        kinds = ALL_KINDS if policy is None else kinds_concerned(policy)
        return (
            bool(self._dead(now, patience))
            or leases_ran_out(self._readers, now, kinds)
            or self.locks_to_free(now, patience) > 0
        )

    def orphans_are_there(
        self: Asked, now: Instant, patience: Patience, policy: RecoveryPolicy | None = None
    ) -> bool:
        """Whether tasks are held by workers that are gone, or by leases that ran out.

        A policy leaves some kinds alone.
        """
        kinds = ALL_KINDS if policy is None else kinds_concerned(policy)
        dead = self._dead(now, patience)

        def held(tx: Transaction) -> bool:
            return any(held_by(tx, found.peer, 1, kinds) for found in dead)

        return self._read("looking for orphans", held) or leases_ran_out(self._readers, now, kinds)

    def _dead(self: Asked, now: Instant, patience: Patience) -> list[Judged]:
        own = self.incarnation_id()
        judged = judged_peers(self._readers, self._folder, own, now, patience)
        self._met = frozenset(found.peer.incarnation for found in judged)
        self._wakeups.deaths.watch(found.peer for found in judged if not found.is_dead)
        return [found for found in judged if found.is_dead]

    def plan(self: Asked, now: Instant, policy: RecoveryPolicy) -> Iterator[Decision]:
        """What recovery would do with each running task, and why; changes nothing."""
        own = self.incarnation_id()
        # Who only looks has proven nothing, and may see who else is there.
        is_sole = policy.is_sole and not self._openers.users()
        policy = policy._replace(is_sole=is_sole)
        return Planner(self._readers, self._folder, own, now, policy).decisions()

    def dead_workers(self: Asked, now: Instant, patience: Patience) -> tuple[str, ...]:
        """The workers that count as alive and are dead."""
        return names(self._dead(now, patience))

    def left_by_recovery(self: Asked, limit: int) -> LeftByRecovery:
        """How many tasks are pending, and so many of those that were orphaned again and again."""

        def look(tx: Transaction) -> LeftByRecovery:
            pending = int(tx.value("pending_count"))
            count = int(tx.value("suspect_count")) if limit else 0
            return LeftByRecovery(pending, _suspects(tx, limit) if count else (), count)

        return self._read("counting", look)

    def held_count(self: Asked) -> int:
        """How many tasks that recovery put back wait for approval."""
        return int(self._read("counting", lambda tx: tx.value("held_recoveries")))

    def is_held_by_recovery(self: Asked, task_id: str) -> bool:
        """Whether recovery put a task back and it waits for approval."""
        held = {"id": task_id}
        return bool(self._read("reading a task", lambda tx: tx.value("is_held_by_recovery", held)))

    def is_recovering(self: Asked) -> bool:
        """Whether a process is in the middle of a recovery run: it holds the lock for it."""
        return self._folder.is_being_recovered()

    def suspects(self: Asked, limit: int) -> tuple[Suspect, ...]:
        """Tasks that were orphaned again and again, the worst first."""
        return self._read("reading tasks", lambda tx: _suspects(tx, limit))

    def suspect_count(self: Asked) -> int:
        """How many tasks were orphaned again and again."""
        return int(self._read("counting", lambda tx: tx.value("suspect_count")))

    def spared(self: Asked, now: Instant, policy: RecoveryPolicy, limit: int) -> Spared:
        """The orphans that a policy leaves alone because of their kind."""
        return spared(self._readers, self._dead(now, policy.patience), now, policy, limit)

    def recovery_settings(self: Asked) -> str | None:
        """The recovery settings that whoever served last has left, as JSON."""
        key = {"key": recovery_runs.RECOVERY_SETTINGS}
        left: str | None = self._read("reading a run", lambda tx: tx.value("get_meta", key))
        return left

    def recovered(self: Asked, run_id: int, after: int, limit: int) -> list[RecoveredTask]:
        """The tasks a run moved, a page at a time."""
        return self._read(
            "reading a run", lambda tx: recovery_runs.recovered(tx, run_id, after, limit)
        )

    def recovered_count(self: Asked, run_id: int, after: int) -> int:
        """How many tasks a run moved behind a position of the stream."""
        return self._read(
            "reading a run", lambda tx: recovery_runs.recovered_count(tx, run_id, after)
        )

    def telling_run(self: Asked, run_id: int | None) -> tuple[RecoveryReport, int] | None:
        """A run, or the newest with something to tell, and how many found nothing since."""
        return self._read("reading a run", lambda tx: recovery_runs.telling(tx, run_id))

    def last_run(self: Asked, trigger: str | None = None) -> RecoveryReport | None:
        """The newest run that was completed."""
        return self._read("reading a run", lambda tx: recovery_runs.last(tx, trigger))


def _suspects(tx: Transaction, limit: int) -> tuple[Suspect, ...]:
    return tuple(
        Suspect(
            task_id, kind, status, count,
            likely_cause(kind, crashes, expiries, bool(beats), error, beside=beside, others=others),
        )
        for (task_id, kind, status, count, crashes, expiries, beats, error, beside,
             others) in tx.rows("suspects", {"limit": limit})
    )  # fmt: skip
