"""The clock of lives: it stands where it is set, so that two runs write the same rows."""

from outlast.clock import Instant
from outlast.domain.duration import Duration, duration_ms


class SetClock:
    """A clock that stands where it is set."""

    def __init__(self, days: int = 0) -> None:
        self._utc_ms = 1_800_000_000_000
        self._mono_ms = 1_000_000
        self.advance(days * 86_400)

    def now(self) -> Instant:
        """The moment it was last set to."""
        return Instant(self._utc_ms, self._mono_ms)

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        ms = duration_ms(duration, "duration")
        self._utc_ms += ms
        self._mono_ms += ms
