"""A clock for tests: it moves only when told."""

from outlast.clock import Instant
from outlast.domain.duration import Duration, duration_ms


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, utc_ms: int = 1_800_000_000_000, mono_ms: int = 1_000_000) -> None:
        self._utc_ms = utc_ms
        self._mono_ms = mono_ms

    def now(self) -> Instant:
        """The moment the clock was last moved to."""
        return Instant(self._utc_ms, self._mono_ms)

    def advance(self, duration: Duration) -> None:
        """Let time pass on both clocks."""
        ms = duration_ms(duration, "duration")
        self._utc_ms += ms
        self._mono_ms += ms

    def step_utc(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        self._utc_ms += round(seconds * 1000)
