"""The one place time comes from; everything below receives `now` as a parameter."""

from time import monotonic_ns, time_ns
from typing import NamedTuple, Protocol

from outlast.host import boot


class Instant(NamedTuple):
    """One moment on both clocks: UTC to tell people, monotonic to judge leases."""

    utc_ms: int
    mono_ms: int


def boot_id() -> str:
    """The boot that the monotonic clock counts from: only within one do its times compare."""
    return boot.boot_id()


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
        self._offset_ms = boot.monotonic_offset_ms()

    def now(self) -> Instant:
        """The present moment."""
        mono_ms = monotonic_ns() // 1_000_000 - self._offset_ms
        return _new_tuple(Instant, (time_ns() // 1_000_000, mono_ms))
