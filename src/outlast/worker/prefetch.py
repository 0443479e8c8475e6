"""How quickly tasks end here, and so how many a worker may prefetch without hoarding them."""

import time

AHEAD_SECONDS = 0.1
HOARD_SECONDS = 1.0
QUIET_SECONDS = 0.25
# Slots that began together end together: a rate over less time than this would mean nothing.
LEAST_SECONDS = 0.01
WEIGHT = 0.5


class PrefetchPace:
    """A running average of ended tasks per second; it falls while no task ends."""

    def __init__(self, concurrency: int, prefetch: int) -> None:
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._per_second = 0.0
        self._uncounted = 0
        self._counted_at = self._ended_at = self._handed_at = time.monotonic()

    def handed(self) -> None:
        """Tasks have come in."""
        self._handed_at = time.monotonic()

    def ended(self, count: int, now: float) -> None:
        """Tasks have ended since the last time this was said."""
        if not count:
            return
        self._ended_at = now
        self._uncounted += count
        seconds = now - self._counted_at
        if seconds >= LEAST_SECONDS:
            weight = WEIGHT if seconds < QUIET_SECONDS else 1.0
            self._per_second += weight * (self._uncounted / seconds - self._per_second)
            self._uncounted, self._counted_at = 0, now

    def ahead(self) -> int:
        """How many to have ready beyond those at work: what is likely done in a moment."""
        rate = self._per_second
        quiet_seconds = time.monotonic() - self._ended_at
        if quiet_seconds > QUIET_SECONDS:
            rate = min(rate, self._concurrency / quiet_seconds)
        return min(self._prefetch, int(rate * AHEAD_SECONDS))

    def hoards(self, now: float) -> bool:
        """Whether what was taken ahead has been waiting for long with nothing ending."""
        return now - max(self._ended_at, self._handed_at) >= HOARD_SECONDS
