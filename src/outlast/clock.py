"""The one place time comes from; everything below receives `now` as a parameter."""

from time import monotonic_ns, time_ns
from typing import NamedTuple, Protocol

from outlast.host import kernel


class Instant(NamedTuple):
    """One moment on both clocks: UTC to tell people, monotonic to judge leases."""

    utc_ms: int
    mono_ms: int


# Spares the detour by which a named tuple is usually made.
_new_tuple = tuple.__new__


class Clock(Protocol):
    """Anything that can say what time it is."""

    def now(self) -> Instant:
        """The present moment."""
        ...


class SystemClock:
    """The host's clocks. The monotonic one stands still while the machine sleeps."""

    def __init__(self) -> None:
        self._offset_ms = kernel.monotonic_offset_ms()

    def now(self) -> Instant:
        """The present moment."""
        mono_ms = monotonic_ns() // 1_000_000 - self._offset_ms
        return _new_tuple(Instant, (time_ns() // 1_000_000, mono_ms))
