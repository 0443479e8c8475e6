import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Settings


@pytest.mark.proves("CFG-04")
def test_the_lease_timeout_defaults_to_300_seconds_and_can_be_set() -> None:
    assert Settings().lease_seconds == 300
    assert Settings().lease_ms("anything") == 300_000
    assert Settings(lease_seconds=45).lease_ms("anything") == 45_000
    for wrong in (0, 0.0001, -1, math.nan, math.inf, "5m", None, True):
        with pytest.raises(InvalidInput, match=r"^setting lease_seconds must be "):
            Settings(lease_seconds=wrong)  # type: ignore[arg-type]


@pytest.mark.proves("CFG-05")
def test_the_retry_limits_default_to_three_and_can_be_set() -> None:
    assert (Settings().max_retries, Settings().max_recovery_attempts) == (3, 3)
    assert Settings(max_retries=0, max_recovery_attempts=9).max_retries == 0
    for wrong in (-1, 1.5, True, "3", None, 1_000_001):
        with pytest.raises(InvalidInput, match="setting max_retries must be a whole number"):
            Settings(max_retries=wrong)  # type: ignore[arg-type]


def test_the_defaults_are_the_documented_ones() -> None:
    settings = Settings()
    assert (settings.recovery_action, settings.migrate, settings.synchronous) == (
        "retry", "auto", "full",
    )  # fmt: skip
    assert (settings.retry_backoff_seconds, settings.retry_backoff_cap_seconds) == (1, 300)
    assert settings.idempotency_ttl_seconds == 24 * 3600
    assert (settings.flush_pages, settings.wal_limit_bytes) == (1000, 64 << 20)
    assert settings.open_timeout_seconds == 30
    assert not settings.allow_network_filesystem
    assert (settings.prefetch, settings.settle_delay_seconds) == (512, 0.005)
    assert (settings.shutdown_seconds, settings.workspace) == (30, None)
    assert settings.heartbeat_grace_seconds == 10
    for left_open in ("interval", "stale", "timeout"):
        assert getattr(settings, f"heartbeat_{left_open}_seconds") is None


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("recovery_action", "ignore"),
        ("recovery_action", None),
        ("migrate", "maybe"),
        ("synchronous", "off"),
        ("retry_backoff_seconds", 0),
        ("retry_backoff_cap_seconds", -5),
        ("idempotency_ttl_seconds", 0),
        ("heal_interval_seconds", math.nan),
        ("retry_backoff_seconds", math.inf),
        ("lease_seconds_by_kind", {"work": math.inf}),
        ("lease_seconds_by_kind", ["work"]),
        ("heal_batch", 0),
        ("heal_batch", 1.5),
        ("flush_pages", 0),
        ("wal_limit_bytes", 0),
        ("open_timeout_seconds", -1),
        ("write_timeout_seconds", "30"),
        ("stall_seconds", None),
        ("max_recovery_attempts", -1),
        ("lease_seconds_by_kind", {"work": 0}),
        ("lease_seconds_by_kind", {"work": "5m"}),
        ("heartbeat_interval_seconds", 0),
        ("heartbeat_stale_seconds", math.nan),
        ("heartbeat_grace_seconds", -1),
        ("heartbeat_grace_seconds", None),
        ("heartbeat_timeout_seconds", "5s"),
        ("prefetch", 0),
        ("prefetch", 2.0),
        ("settle_delay_seconds", -0.001),
        ("shutdown_seconds", math.inf),
        ("heal_at_claim", 1),
        ("allow_network_filesystem", "yes"),
        ("wal_limit_bytes", 1e6),
        ("lease_seconds", 4e9),
        ("workspace", ""),
        ("workspace", 5),
        ("workspace", b"bytes"),
        ("workspace", "a\0b"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^setting {name}.* must be ") as refused:
        Settings(**{name: wrong})
    assert "\n" not in str(refused.value)


def test_settings_are_frozen_and_keep_no_hand_on_what_they_were_given() -> None:
    by_kind = {"slow": 600.0}
    settings = Settings(lease_seconds_by_kind=by_kind)
    by_kind["slow"] = 1
    assert settings.lease_ms("slow") == 600_000
    with pytest.raises(TypeError):
        settings.lease_seconds_by_kind["slow"] = 1  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.lease_seconds = 1  # type: ignore[misc]


def test_a_setting_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="leese_seconds"):
        Settings(leese_seconds=5)  # type: ignore[call-arg]


def test_settings_are_plain_data_and_can_be_made_anew_from_it() -> None:
    """A helper process gets them as JSON."""
    settings = Settings(
        lease_seconds_by_kind={"slow": 600},
        recovery_action_by_kind={"slow": "none"},
        workspace=Path("aside"),
    )
    values = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    for name in ("lease_seconds_by_kind", "recovery_action_by_kind"):
        values[name] = dict(values[name])
    assert Settings(**json.loads(json.dumps(values))) == settings
    assert dataclasses.replace(settings, lease_seconds=0.2).heartbeat.interval_ms == 67
