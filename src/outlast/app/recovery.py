"""The verbs of an Outlast object around recovery: what was found, what would be done, doing it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from outlast.app.handle import StoreHandle
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.integrity import IntegrityResult
from outlast.domain.lifecycle import OPERATOR, RecoveryAction
from outlast.domain.names import checked_flag, checked_whole
from outlast.domain.operator_acts import LIBRARY, Signature, signed
from outlast.domain.recovery import (
    Decision,
    RecoveredTask,
    RecoveryReport,
    RecoveryStatus,
)
from outlast.maintenance.healing import RecoveryStats, heal, recovery_stats
from outlast.maintenance.recovery import CALLED, run
from outlast.store.records import Batch, FlushResult
from outlast.store.session import Session, policy_of

if TYPE_CHECKING:
    from outlast.domain.recovery_report import ReportDocument

MAX_PLANNED = 100_000
MAX_NUMBER = (1 << 63) - 1
SUSPECTS_SHOWN = 10
LEFT_ALONE_SHOWN = 100


@runtime_checkable
class QueueRecovery(Protocol):
    """Recovery of a queue, as an `Outlast` answers it; for programs that bring a stand-in."""

    def recover(self, on_batch: Callable[[Batch], None] | None = None) -> RecoveryReport:
        """Take back what the dead left; `on_batch` hears of each batch, and may raise to stop."""
        ...

    def check_integrity(self, quick: bool = False) -> IntegrityResult:
        """Check the file; nothing is repaired."""
        ...

    def flush_wal(self, mode: str = "truncate") -> FlushResult:
        """Move the log into the main file."""
        ...

    def last_report(self) -> RecoveryReport | None:
        """The record of the newest run, whichever process made it."""
        ...


class RecoveryVerbs:
    """Recovery by hand, and the record of what recovery did by itself."""

    _handle: StoreHandle

    def recover(self, on_batch: Callable[[Batch], None] | None = None) -> RecoveryReport:
        """The pass of start-up, once more; it changes nothing that is as it should be.

        `on_batch` hears of each batch once it is committed. What it raises stops the pass there,
        and does no harm: the next one goes on.
        """
        session, opening = self._served(on_batch)
        return opening or run(session, CALLED, on_batch)

    def _served(
        self, on_batch: Callable[[Batch], None] | None = None
    ) -> tuple[Session, RecoveryReport | None]:
        """The store, and the run of its opening if this call opened it: that run is the answer."""
        was_open = self._handle.is_serving
        session = self._handle.serve(on_batch)
        return session, None if was_open else session.opening

    def recovery_plan(self, limit: int = 1000) -> list[Decision]:
        """What recovery would do with the running tasks, and why; nothing is changed."""
        limit = checked_whole(limit, "limit", 1, MAX_PLANNED)
        settings = self._handle.settings
        decisions = self._handle.look().recovery.plan(self._handle.now(), policy_of(settings))
        planned = [one for one, _ in zip(decisions, range(limit), strict=False)]
        return planned if settings.recovers else [_left_alone(one) for one in planned]

    def recovery_settings(self) -> str | None:
        """The recovery settings that whoever served this store last has left in it, as JSON."""
        return self._handle.look().runs.settings()

    def recovery_status(self) -> RecoveryStatus:
        """Whether recovery is on, how the last run went, and what waits for it or for approval."""
        settings, now, reads = self._handle.settings, self._handle.now(), self._handle.look()
        policy = policy_of(settings)
        left_alone = reads.recovery.spared(now, policy, LEFT_ALONE_SHOWN)
        return RecoveryStatus(
            mode=settings.mode,
            action=settings.recovery_action,
            is_due=reads.recovery.orphans_are_there(now, settings.patience, policy),
            held_tasks=reads.recovery.held_count(),
            dead_workers=reads.recovery.dead_workers(now, settings.patience),
            suspects=reads.recovery.suspects(SUSPECTS_SHOWN),
            last=reads.runs.last(),
            is_running=reads.runs.is_under_way(),
            suspect_count=reads.recovery.suspect_count(),
            left_alone=left_alone.number,
            left_alone_ids=left_alone.task_ids,
        )

    def last_report(self) -> RecoveryReport | None:
        """The record of the newest run, whichever process made it."""
        return self._handle.look().runs.last()

    def recovery_report(
        self, run_id: int | None = None, limit: int = 1000, after: int = 0
    ) -> "ReportDocument | None":
        """A run with its tasks, to print or to pass on; the newest that has something to tell.

        `limit` bounds the tasks that are listed, `after` is the `next_after` of the page before.
        """
        # Only who asks for a report pays for its import.
        from outlast.domain.recovery_report import document

        limit = checked_whole(limit, "limit", 0, MAX_PLANNED)
        after = checked_whole(after, "after", 0, MAX_NUMBER)
        if run_id is not None:
            run_id = checked_whole(run_id, "run_id", 1, MAX_NUMBER)
        reads = self._handle.look()
        found = reads.runs.telling(run_id)
        if found is None:
            return None
        report, runs_since = found
        tasks = reads.runs.recovered(report.run_id, after, limit + 1)
        last = tasks[limit - 1].pos if limit and tasks[limit:] else after
        following = reads.runs.recovered_count(report.run_id, last) if tasks[limit:] else 0
        return document(report, tasks[:limit], runs_since, following=following)

    def recovered(self, run_id: int, after: int = 0, limit: int = 1000) -> list[RecoveredTask]:
        """The tasks that a run moved, a page at a time."""
        limit = checked_whole(limit, "limit", 1, MAX_PLANNED)
        after = checked_whole(after, "after", 0, MAX_NUMBER)
        run_id = checked_whole(run_id, "run_id", 1, MAX_NUMBER)
        return self._handle.look().runs.recovered(run_id, after, limit)

    def heal(self) -> RecoveryStats:
        """Put back the tasks of dead holders and of leases that ran out.

        If this call opens the store, what its opening put back is among the figures.
        """
        session, opening = self._served()
        stats = heal(session)
        return stats if opening is None else stats.after(opening)

    def recovery_stats(self) -> RecoveryStats:
        """The figures that heal() would return now; nothing is changed."""
        settings = self._handle.settings
        return recovery_stats(self._handle.look(), self._handle.now(), policy_of(settings))

    def reclaim_stale(
        self,
        threshold_seconds: Duration,
        force: bool = False,
        *,
        by: str | None = None,
        source: str = LIBRARY,
    ) -> int:
        """Take back tasks that gave no sign of life for so long; how many.

        Only those whose leases have run out, unless you force it: then a living worker loses its
        task, and learns of it at its next write. `by` is who did it, in the record. If this call
        opens the store, what its opening took back is among them.
        """
        silent_ms = duration_ms(threshold_seconds, "threshold_seconds")
        signature = None if by is None else signed(by, source)
        if checked_flag(force, "force") and signature is None:
            signature = Signature(OPERATOR, source)
        session, opening = self._served()
        count = session.store.recovery.reclaim(
            session.now(), session.policy, silent_ms, force, signature
        )
        return count if opening is None else count + opening.tasks_put_back + opening.tasks_failed

    def check_integrity(self, quick: bool = False) -> IntegrityResult:
        """Check the file by SQLite's own means; nothing is repaired."""
        return self._handle.serve().store.check(quick)


def _left_alone(planned: Decision) -> Decision:
    """The same while recovery is switched off."""
    because = f"{planned.because}; recovery is switched off"
    return replace(planned, action=RecoveryAction.NONE, to="running", reason="off", because=because)
