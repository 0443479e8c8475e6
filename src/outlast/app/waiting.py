"""Waiting for others: sleep until there is a reason to look; for work, and for results."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from outlast.app import claim
from outlast.app.lease import Lease
from outlast.app.why import why
from outlast.clock import Instant
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.lifecycle import Status
from outlast.domain.task import Task
from outlast.errors import StoreError, TaskCancelled, TaskFailed, TaskNotFound
from outlast.store.base import StoreReads
from outlast.store.records import ClaimRequest
from outlast.store.session import Session

POLL_SECONDS = 0.2


class Vigil:
    """When to look next. Hints are quick and may be lost; the count of changes never lies.

    One that waits for work also looks when a delayed task falls due, when a lease ends, and now
    and then for holders that died, since nobody commits anything at those moments.
    """

    def __init__(
        self, reads: StoreReads, timeout_seconds: float | None, session: Session | None = None
    ) -> None:
        self._reads = reads
        self._session = session
        now = time.monotonic()
        self._ends_at = float("inf") if timeout_seconds is None else now + timeout_seconds
        self._look_at = now
        self._seen = 0

    def begin(self) -> None:
        """About to look: what is committed from now on is news."""
        self._refuse_when_closed()
        self._seen = self._reads.changes()
        self._look_at = self._ends_at
        if self._session is not None:
            wait_seconds = min(
                self._session.settings.heal_interval_seconds,
                self._next_event_seconds(self._session.now()),
            )
            self._look_at = min(self._ends_at, time.monotonic() + wait_seconds)

    def _refuse_when_closed(self) -> None:
        """Others may keep the store open when this caller's own object is closed."""
        if self._session is not None and self._session.is_over():
            raise StoreError("this store was closed while work was waited for; open it again")

    def _next_event_seconds(self, now: Instant) -> float:
        due_utc_ms, lease_end_mono_ms = self._reads.horizon(now)
        waits_ms = [
            at_ms - present_ms
            for at_ms, present_ms in ((due_utc_ms, now.utc_ms), (lease_end_mono_ms, now.mono_ms))
            if at_ms is not None and at_ms > present_ms
        ]
        return min(waits_ms, default=float("inf")) / 1000

    def look_within(self, seconds: float) -> None:
        """Look again at the latest when so much time has passed."""
        self._look_at = min(self._look_at, time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        """Whether the caller has waited as long as it wanted to."""
        return time.monotonic() >= self._ends_at

    def pause_seconds(self) -> float:
        """How long to sleep before the next look; 0 when there is a reason to look now."""
        self._refuse_when_closed()
        left = self._look_at - time.monotonic()
        if left <= 0 or self._reads.changes() != self._seen:
            return 0.0
        return min(left, POLL_SECONDS)


def claim_vigil(session: Session, timeout_seconds: float) -> Vigil:
    """A vigil for work."""
    return Vigil(session.store, timeout_seconds, session)


def claim_when_ready(
    session: Session, request: ClaimRequest, lease: Duration | None, wait: Duration | None
) -> list[Lease]:
    """Claim, waiting for something eligible if need be; an empty list when the time is up."""
    timeout_seconds = 0.0 if wait is None else duration_ms(wait, "wait") / 1000
    claimed = claim.claim(session, request, lease)
    if claimed or not timeout_seconds:
        return claimed
    vigil = claim_vigil(session, timeout_seconds)
    with closing(session.store.ear(for_work=True)) as ear:
        while True:
            vigil.begin()
            claimed = claim.claim(session, request, lease)
            if claimed or vigil.is_over:
                return claimed
            while (pause := vigil.pause_seconds()) > 0 and not ear.wait(pause):
                pass


def wait_for(
    reads: StoreReads, task_id: str, timeout: Duration | None, clock: Callable[[], Instant]
) -> Any:
    """The result of a task once it has one; raises what became of it instead."""
    vigil = Vigil(reads, timeout_seconds(timeout))
    with closing(reads.ear(for_work=False)) as ear:
        while True:
            vigil.begin()
            if ended_among(reads, [task_id]):
                return outcome(reads.get(task_id), task_id)
            if vigil.is_over:
                raise too_late(reads, task_id, timeout, clock())
            while (pause := vigil.pause_seconds()) > 0 and not ear.wait(pause):
                pass


def ended_among(reads: StoreReads, task_ids: Sequence[str]) -> list[str]:
    """Those of these tasks that will not change any more."""
    return reads.ended_among(task_ids) if task_ids else []


def timeout_seconds(timeout: Duration | None) -> float | None:
    """A caller's patience in seconds; None for ever."""
    return None if timeout is None else duration_ms(timeout, "timeout") / 1000


def too_late(
    reads: StoreReads, task_id: str, timeout: Duration | None, now: Instant
) -> TimeoutError:
    """The error of one who waited long enough; the task itself is as it was."""
    task = reads.get(task_id)
    reason = "" if task is None else f" ({why(reads, task, now)})"
    waited = f"{timeout_seconds(timeout):g} s"
    return TimeoutError(
        f"task {task_id} did not end within {waited}{reason}; nothing was done to it, ask again"
    )


def outcome(task: Task | None, task_id: str) -> Any:
    """What a final task answers to one who waited for it."""
    if task is None:
        raise TaskNotFound(task_id)
    if task.status is Status.FAILED:
        raise TaskFailed(task_id, task.error)
    if task.status is Status.CANCELLED:
        raise TaskCancelled(task_id)
    return task.result
