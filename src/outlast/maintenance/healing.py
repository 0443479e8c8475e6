"""Healing: takes back what dead workers hold, in the maintenance loop, at claims and by hand."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from outlast.clock import Instant
from outlast.domain.lifecycle import RecoveryAction
from outlast.domain.record import record
from outlast.domain.recovery import RecoveryReport
from outlast.domain.task import utc_of
from outlast.errors import OutlastError
from outlast.store.records import Batch, RecoveryPolicy
from outlast.store.session import Session

if TYPE_CHECKING:
    from outlast.store.store import Store


@record(frozen=True, slots=True)
class RecoveryStats:
    """What one pass of healing did; or would do, if `is_dry_run` says that nothing was done."""

    entries_reclaimed: int
    entries_failed: int
    dead_workers: tuple[str, ...]
    recovery_timestamp: datetime
    locks_cleaned: int = 0
    is_dry_run: bool = False

    def after(self, opening: RecoveryReport) -> "RecoveryStats":
        """These figures and those of the opening that came just before."""
        return replace(
            self,
            entries_reclaimed=self.entries_reclaimed + opening.tasks_put_back,
            entries_failed=self.entries_failed + opening.tasks_failed,
            locks_cleaned=self.locks_cleaned + opening.locks_freed,
            dead_workers=(*(one.worker for one in opening.dead_workers), *self.dead_workers),
        )


class _Stopping(Exception):
    """The maintenance loop stops in the middle of a pass."""


class Recovery(Protocol):
    """Makes a store ready before it serves; replaceable."""

    def __call__(self, session: Session) -> object:
        """Put back what the dead held; what is returned is nobody's concern."""
        ...


def run(session: Session, goes_on: Callable[[], bool]) -> None:
    """The maintenance job: heal if somebody died; whoever stops the loop waits for one batch."""

    def stop_between_batches(batch: Batch) -> None:
        if not goes_on():
            raise _Stopping

    if not session.store.recovery.is_due(session.now(), session.settings.patience, session.policy):
        return
    try:
        heal(session, stop_between_batches)
    except _Stopping:
        session.log.debug("a look for dead workers was broken off; the next one goes on")


def heal(session: Session, tell: Callable[[Batch], None] | None = None) -> RecoveryStats:
    """Heal now, whatever was healed a moment ago; `tell` hears of batches, and may break it off."""
    now = session.now()
    healed = session.store.recovery.heal(now, session.policy, tell=tell, is_thorough=True)
    return RecoveryStats(
        healed.put_back, healed.failed, healed.dead_workers, utc_of(now.utc_ms), healed.locks_freed
    )


def recovery_stats(reads: "Store", now: Instant, policy: RecoveryPolicy) -> RecoveryStats:
    """The figures that healing would have now; nothing is changed."""
    to = Counter(
        one.to
        for one in reads.recovery.plan(now, policy)
        if one.orphaned is not None and one.action is not RecoveryAction.NONE
    )
    return RecoveryStats(
        to["pending"],
        to["failed"],
        reads.recovery.dead_workers(now, policy.patience),
        utc_of(now.utc_ms),
        reads.locks.to_free(now, policy.patience),
        is_dry_run=True,
    )


def heal_before_claim(session: Session, force: bool) -> bool:
    """Best effort and throttled; True if anything was put back. A claim never fails by it."""
    if not (session.settings.heal_at_claim and session.settings.recovers):
        return False
    now = session.now()
    last = session.store.recovery.healed_at_mono_ms
    interval_ms = session.settings.heal_interval_seconds * 1000
    # What cannot be moved is found again and again; looking for it at each empty claim is in vain.
    is_patient = not force or session.met_unfit
    if is_patient and last is not None and now.mono_ms - last < interval_ms:
        return False
    session.store.recovery.healed_at_mono_ms = now.mono_ms
    try:
        if not session.store.recovery.is_due(now, session.settings.patience, session.policy):
            return False
        healed = session.store.recovery.heal(now, session.policy)
    except OutlastError as error:
        session.log.warning("healing before a claim failed, the claim goes on: %s", error)
        return False
    session.met_unfit = bool(healed.unfit)
    return healed.put_back > 0
