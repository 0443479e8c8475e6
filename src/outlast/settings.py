"""One frozen, validated object with every knob of the engine and its default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from outlast.domain.budgets import Backoff
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.lifecycle import RecoveryAction
from outlast.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are seconds; `lease_seconds` may be given per kind in `lease_seconds_by_kind`."""

    lease_seconds: float = 300
    lease_seconds_by_kind: Mapping[str, float] = field(default_factory=dict)
    max_retries: int = 3
    max_recovery_attempts: int = 3
    recovery_action: Literal["retry", "pending", "fail"] = "retry"
    retry_backoff_seconds: float = 1
    retry_backoff_cap_seconds: float = 300
    idempotency_ttl_seconds: float = 24 * 3600
    heal_at_claim: bool = True
    heal_interval_seconds: float = 1
    heal_batch: int = 2000
    open_timeout_seconds: float = 30
    write_timeout_seconds: float = 30
    stall_seconds: float = 0.5
    migrate: Literal["auto", "manual"] = "auto"
    synchronous: Literal["full", "normal"] = "full"
    max_waiting_writes: int = 2000
    flush_pages: int = 1000
    flush_commits: int = 0
    wal_limit_bytes: int = 64 << 20
    allow_network_filesystem: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work, in one sentence that names the knob."""
        for name in _POSITIVE:
            _require(_is_positive(getattr(self, name)), name, "a number, at least 0.001")
        for name in _WHOLE:
            value = getattr(self, name)
            _require(type(value) is int and 0 <= value <= 1_000_000, name, "a whole number from 0")
        for name, allowed in _CHOICES.items():
            _require(getattr(self, name) in allowed, name, f"one of {', '.join(allowed)}")
        by_kind = self.lease_seconds_by_kind
        _require(isinstance(by_kind, Mapping), "lease_seconds_by_kind", "a dict of kind to seconds")
        for kind, seconds in by_kind.items():
            _require(
                _is_positive(seconds),
                f"lease_seconds_by_kind[{kind!r}]",
                "a number, at least 0.001",
            )
        frozen = MappingProxyType(dict(self.lease_seconds_by_kind))
        object.__setattr__(self, "lease_seconds_by_kind", frozen)

    @property
    def backoff(self) -> Backoff:
        """The waits between retries of a failing task."""
        return Backoff(
            duration_ms(self.retry_backoff_seconds, "retry_backoff_seconds"),
            duration_ms(self.retry_backoff_cap_seconds, "retry_backoff_cap_seconds"),
        )

    @property
    def action(self) -> RecoveryAction:
        """What happens to a task whose holder died."""
        return RecoveryAction(self.recovery_action)

    def lease_ms(self, kind: str, asked: Duration | None = None) -> int:
        """The lease for one task: as asked for at the claim, else by kind, else the default."""
        if asked is not None:
            ms = duration_ms(asked, "lease")
            if ms == 0:
                raise InvalidInput("lease must be longer than nothing")
            return ms
        return duration_ms(self.lease_seconds_by_kind.get(kind, self.lease_seconds), "lease")


_SMALLEST = 0.001
_LARGEST = 1e12
_POSITIVE = (
    "lease_seconds retry_backoff_seconds retry_backoff_cap_seconds idempotency_ttl_seconds"
    " heal_interval_seconds heal_batch open_timeout_seconds write_timeout_seconds stall_seconds"
    " max_waiting_writes flush_pages wal_limit_bytes"
).split()
_WHOLE = (
    "max_retries max_recovery_attempts heal_batch max_waiting_writes flush_pages flush_commits"
).split()
_CHOICES = {
    "recovery_action": ("retry", "pending", "fail"),
    "migrate": ("auto", "manual"),
    "synchronous": ("full", "normal"),
}


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _SMALLEST <= value <= _LARGEST  # type: ignore[operator]


def _require(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise InvalidInput(f"setting {name} must be {what}")
