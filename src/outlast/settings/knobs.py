"""The rule of each knob, and what holds between knobs: checked whenever Settings are made."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.errors import InvalidInput
from outlast.settings.rules import ByKind, Folder, OneOf, Rule, Seconds, Switch, Whole

if TYPE_CHECKING:
    from outlast.settings.model import Settings

_PERIOD = Seconds()
_PERIOD_OR_NONE_AT_ALL = Seconds(least=0)
_PERIOD_LEFT_OPEN = Seconds(may_be_open=True)
_ACTION = OneOf(("retry", "pending", "fail", "none"))

KNOBS: dict[str, Rule] = {
    "lease_seconds": _PERIOD,
    "lease_seconds_by_kind": ByKind(_PERIOD, "seconds", "render=10m,mail=30s"),
    "max_retries": Whole(),
    "max_recovery_attempts": Whole(),
    "recovery_enabled": Switch(),
    "recovery_mode": OneOf(("auto", "manual", "off")),
    "recovery_action": _ACTION,
    "recovery_action_by_kind": ByKind(_ACTION, "actions", "render=none,mail=fail"),
    "integrity_check_on_startup": Switch(),
    "exclusive": Switch(),
    "retry_backoff_seconds": _PERIOD,
    "retry_backoff_cap_seconds": _PERIOD,
    "idempotency_ttl_seconds": _PERIOD,
    "lock_ttl_seconds": _PERIOD,
    "heartbeat_interval_seconds": _PERIOD_LEFT_OPEN,
    "heartbeat_stale_seconds": _PERIOD_LEFT_OPEN,
    "heartbeat_grace_seconds": _PERIOD_OR_NONE_AT_ALL,
    "heartbeat_timeout_seconds": _PERIOD_LEFT_OPEN,
    "prefetch": Whole(least=1),
    "settle_delay_seconds": _PERIOD_OR_NONE_AT_ALL,
    "shutdown_seconds": _PERIOD_OR_NONE_AT_ALL,
    "heal_at_claim": Switch(),
    "heal_interval_seconds": _PERIOD,
    "heal_batch": Whole(least=1),
    "detection_interval_seconds": _PERIOD_OR_NONE_AT_ALL,
    "cursor_retention_seconds": _PERIOD,
    "open_timeout_seconds": _PERIOD,
    "write_timeout_seconds": _PERIOD,
    "stall_seconds": _PERIOD,
    "migrate": OneOf(("auto", "manual")),
    "synchronous": OneOf(("full", "normal")),
    "max_waiting_writes": Whole(least=1),
    "flush_pages": Whole(least=1),
    "flush_commits": Whole(),
    "wal_limit_bytes": Whole(least=1, most=1 << 40),
    "allow_network_filesystem": Switch(),
    "workspace": Folder(),
}


def check(settings: "Settings") -> None:
    """Refuse what cannot work, in one sentence that names the knob, or both of them."""
    for name, rule in KNOBS.items():
        rule.check(getattr(settings, name), f"setting {name}")
    for contradiction in _contradictions(settings):
        raise InvalidInput(f"setting {contradiction}; change one of the two")


def _contradictions(settings: "Settings") -> Iterator[str]:
    """What is left open never contradicts: it is worked out to fit."""
    yield from _of_leases(settings)
    beat = settings.heartbeat
    interval = f"heartbeat_interval_seconds ({beat.interval_ms / 1000:g})"
    stale_seconds = settings.heartbeat_stale_seconds
    if stale_seconds is not None and beat.stale_ms < 2 * beat.interval_ms:
        yield f"heartbeat_stale_seconds ({stale_seconds:g}) must be at least twice {interval}"
    timeout_seconds = settings.heartbeat_timeout_seconds
    if timeout_seconds is not None and beat.timeout_ms >= beat.interval_ms:
        yield f"heartbeat_timeout_seconds ({timeout_seconds:g}) must be shorter than {interval}"
    first, cap = settings.retry_backoff_seconds, settings.retry_backoff_cap_seconds
    if cap < first:
        yield (
            f"retry_backoff_cap_seconds ({cap:g}) must be no shorter than"
            f" retry_backoff_seconds ({first:g})"
        )


def _of_leases(settings: "Settings") -> Iterator[str]:
    interval_seconds = settings.heartbeat_interval_seconds
    if interval_seconds is None:
        return
    leases = {"lease_seconds": settings.lease_seconds}
    by_kind = settings.lease_seconds_by_kind
    leases |= {f"lease_seconds_by_kind[{kind!r}]": by_kind[kind] for kind in by_kind}
    for name, lease_seconds in leases.items():
        if lease_seconds <= 2 * interval_seconds:
            yield (
                f"{name} ({lease_seconds:g}) must be longer than two beats of"
                f" heartbeat_interval_seconds ({interval_seconds:g})"
            )
