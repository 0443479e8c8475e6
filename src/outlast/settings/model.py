"""The frozen, validated object with every knob of the engine and its default."""

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from outlast.domain.budgets import USUAL_RECOVERIES, Backoff
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.lifecycle import RecoveryAction
from outlast.domain.orphans import Patience
from outlast.domain.record import record
from outlast.errors import InvalidInput
from outlast.settings import knobs
from outlast.settings.heartbeat import Heartbeat, worked_out


@record(frozen=True, slots=True, kw_only=True)
class Settings:
    """Periods are seconds; None leaves a knob open, and it is worked out from the others.

    `Settings(...)` takes what it is given and nothing else; `Settings.load(...)` also asks the
    environment and a file. docs/settings.md tells what each knob does.
    """

    lease_seconds: float = 300
    lease_seconds_by_kind: Mapping[str, float] = field(default_factory=dict)
    max_retries: int = 3
    max_recovery_attempts: int = USUAL_RECOVERIES
    recovery_enabled: bool = True
    recovery_mode: Literal["auto", "manual", "off"] = "auto"
    recovery_action: Literal["retry", "pending", "fail", "none"] = "retry"
    recovery_action_by_kind: Mapping[str, str] = field(default_factory=dict)
    integrity_check_on_startup: bool = True
    exclusive: bool = False
    retry_backoff_seconds: float = 1
    retry_backoff_cap_seconds: float = 300
    idempotency_ttl_seconds: float = 24 * 3600
    lock_ttl_seconds: float = 300
    heartbeat_interval_seconds: float | None = None
    heartbeat_stale_seconds: float | None = None
    heartbeat_grace_seconds: float = 10
    heartbeat_timeout_seconds: float | None = None
    prefetch: int = 512
    settle_delay_seconds: float = 0.005
    shutdown_seconds: float = 30
    heal_at_claim: bool = True
    heal_interval_seconds: float = 1
    heal_batch: int = 2000
    detection_interval_seconds: float = 60
    cursor_retention_seconds: float = 30 * 86_400
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
    workspace: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work, and let go of what the caller may still change."""
        knobs.check(self)
        for name in ("lease_seconds_by_kind", "recovery_action_by_kind"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if self.workspace is not None:
            # Text, so that all of it stays plain data.
            workspace = str(Path(self.workspace).expanduser().absolute())
            object.__setattr__(self, "workspace", workspace)

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> "Settings":
        """Arguments first, then OUTLAST_… variables, then the settings file, then the defaults."""
        from outlast.settings.loading import load

        return load(file, environ, **arguments).settings

    @property
    def backoff(self) -> Backoff:
        """The waits between retries of a failing task."""
        return Backoff(
            duration_ms(self.retry_backoff_seconds, "retry_backoff_seconds"),
            duration_ms(self.retry_backoff_cap_seconds, "retry_backoff_cap_seconds"),
        )

    @property
    def patience(self) -> Patience:
        """How long a worker's silence is put up with."""
        beat = self.heartbeat
        return Patience(beat.stale_ms, beat.grace_ms)

    def action_for(self, kind: str) -> RecoveryAction:
        """What happens to a task of this kind whose holder died."""
        return RecoveryAction(self.recovery_action_by_kind.get(kind, self.recovery_action))

    @property
    def detects(self) -> bool:
        """Whether a thread of each serving process looks for the dead."""
        return self.recovers and self.detection_interval_seconds > 0

    @property
    def mode(self) -> str:
        """How recovery is done, in one word: auto, manual or off."""
        return self.recovery_mode if self.recovery_enabled else "off"

    @property
    def recovers(self) -> bool:
        """Whether what the dead left behind is taken back at all."""
        return self.mode != "off"

    @property
    def heartbeat(self) -> Heartbeat:
        """The times of a worker's beat in milliseconds, with what was left open worked out."""
        return worked_out(
            self.heartbeat_interval_seconds,
            self.heartbeat_stale_seconds,
            self.heartbeat_grace_seconds,
            self.heartbeat_timeout_seconds,
            min([self.lease_seconds, *self.lease_seconds_by_kind.values()]),
        )

    def lease_ms(self, kind: str, asked: Duration | None = None) -> int:
        """The lease for one task: as asked for at the claim, else by kind, else the default."""
        if asked is not None:
            ms = duration_ms(asked, "lease")
            if ms == 0:
                raise InvalidInput("lease must be longer than nothing")
            return ms
        return duration_ms(self.lease_seconds_by_kind.get(kind, self.lease_seconds), "lease")

    def workspace_for(self, database: Path) -> Path:
        """The folder for the marker, backups and reports of a store: beside it, if none is set."""
        return database.parent if self.workspace is None else Path(self.workspace)
