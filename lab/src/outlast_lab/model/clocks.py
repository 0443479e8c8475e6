"""The virtual clock of a simulation: it moves only when a step says so."""

from outlast.clock import Instant


class VirtualClock:
    """Both clocks of a host that stands still between the steps."""

    def __init__(self) -> None:
        self._utc_ms = 1_800_000_000_000
        self._mono_ms = 1_000_000

    def now(self) -> Instant:
        """The moment the clock was last moved to."""
        return Instant(self._utc_ms, self._mono_ms)

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._utc_ms += round(seconds * 1000)
        self._mono_ms += round(seconds * 1000)

    def step_utc(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        self._utc_ms += round(seconds * 1000)
