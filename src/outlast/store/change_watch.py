"""When to look at the store again: at a change, at a due time, or when the patience ends."""

import time
from typing import TYPE_CHECKING

from outlast.clock import Instant
from outlast.errors import StoreError
from outlast.store.session import Session

if TYPE_CHECKING:
    from outlast.store.store import Store

POLL_SECONDS = 0.2


class ChangeWatch:
    """When to look next. Hints are quick and may be lost; the count of changes never lies.

    One that waits for work also looks when a delayed task falls due, when a lease ends, and now
    and then for holders that died, since nobody commits anything at those moments.
    """

    def __init__(
        self, reads: "Store", timeout_seconds: float | None, session: Session | None = None
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
        due_utc_ms, lease_end_mono_ms = self._reads.claims.horizon(now)
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
