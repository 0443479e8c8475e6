"""The times of a worker's beat, worked out from what was given and from the leases it renews."""

from typing import NamedTuple

INTERVAL_SECONDS = 30
STALE_MULTIPLIER = 3
LONGEST_TIMEOUT_SECONDS = 5
BEATS_PER_LEASE = 3


class Heartbeat(NamedTuple):
    """How often a worker beats, how long one beat may take, and when silence counts."""

    interval_ms: int
    stale_ms: int
    grace_ms: int
    timeout_ms: int


def worked_out(
    interval_seconds: float | None,
    stale_seconds: float | None,
    grace_seconds: float,
    timeout_seconds: float | None,
    shortest_lease_seconds: float,
) -> Heartbeat:
    """What was given stands; what was not follows from the lease and the interval."""
    if interval_seconds is None:
        interval_seconds = min(INTERVAL_SECONDS, shortest_lease_seconds / BEATS_PER_LEASE)
    if stale_seconds is None:
        stale_seconds = STALE_MULTIPLIER * interval_seconds
    if timeout_seconds is None:
        timeout_seconds = min(LONGEST_TIMEOUT_SECONDS, interval_seconds / 3)
    return Heartbeat(
        _ms(interval_seconds), _ms(stale_seconds), round(grace_seconds * 1000), _ms(timeout_seconds)
    )


def _ms(seconds: float) -> int:
    """Never nothing, however short a lease is."""
    return max(1, round(seconds * 1000))
