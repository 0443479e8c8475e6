"""The options of recovery and heartbeat: the seed's keys, the seed's defaults, in typed objects."""

import dataclasses
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import InvalidInput, Outlast, RecoveryAction, Settings
from outlast.settings.heartbeat import Heartbeat
from outlast.store.session import policy_of
from tests.recovery.stage import crash

SAMPLE = """\
queue:
  recovery:
    action: retry  # retry, fail, pending
    maxRecoveryAttempts: 3
    integrityCheckOnStartup: true

  heartbeat:
    intervalSeconds: 30
    staleThresholdMultiplier: 3
    detectionIntervalSeconds: 60
"""
OTHER = (
    SAMPLE.replace("retry  #", "fail  #")
    .replace(": 3\n    integrity", ": 5\n    integrity")
    .replace("true", "false")
    .replace("30", "20")
    .replace("Multiplier: 3", "Multiplier: 4")
    .replace("60", "45")
)


def loaded(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "outlast.yaml"
    file.write_text(text)
    return Settings.load(file, {})


@pytest.mark.proves("CFG-01")
def test_the_seed_s_sample_file_says_what_the_defaults_are(tmp_path: Path) -> None:
    settings, defaults = loaded(tmp_path, SAMPLE), Settings()
    assert (settings.recovery_action, settings.max_recovery_attempts) == ("retry", 3)
    assert settings.integrity_check_on_startup is True
    assert (settings.heartbeat.interval_ms, settings.heartbeat.stale_ms) == (30_000, 90_000)
    assert settings.detection_interval_seconds == 60
    assert policy_of(settings) == policy_of(defaults)
    assert settings.heartbeat == defaults.heartbeat
    assert settings.detection_interval_seconds == defaults.detection_interval_seconds


@pytest.mark.proves("CFG-01")
def test_each_of_its_six_keys_is_read_and_obeyed(tmp_path: Path) -> None:
    settings = loaded(tmp_path, OTHER)
    assert (settings.recovery_action, settings.max_recovery_attempts) == ("fail", 5)
    assert settings.integrity_check_on_startup is False
    assert (settings.heartbeat.interval_ms, settings.heartbeat.stale_ms) == (20_000, 80_000)
    assert settings.detection_interval_seconds == 45


@pytest.mark.proves("CFG-01")
def test_the_options_of_a_file_decide_what_recovery_does(
    make_app: Callable[..., Outlast], database: Path, tmp_path: Path
) -> None:
    """Guards the way from the file to the act; the seed never read two of its own."""
    app = Outlast(database, settings=loaded(tmp_path, OTHER))
    assert policy_of(loaded(tmp_path, OTHER)).max_recoveries == 5
    app.enqueue("work", id="t")
    app.close()
    crash(database)
    with Outlast(database, settings=loaded(tmp_path, OTHER)) as app:
        report = app.last_report()
    assert report is not None
    assert (report.tasks_failed, report.integrity.reason) == (1, "it is switched off")


@pytest.mark.proves("CFG-02")
def test_the_options_are_typed_and_frozen_with_the_defaults_of_the_seed() -> None:
    settings = Settings()
    policy = policy_of(settings)
    assert policy.action is RecoveryAction.RETRY
    assert dict(policy.by_kind) == {}
    assert (policy.is_held, policy.is_sole) == (False, False)
    assert (policy.patience.stale_ms, policy.patience.grace_ms) == (90_000, 10_000)
    assert settings.heartbeat == Heartbeat(30_000, 90_000, 10_000, 5_000)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.recovery_action = "fail"  # type: ignore[misc]
    types = typing.get_type_hints(Settings)
    assert types["max_recovery_attempts"] is int
    assert types["integrity_check_on_startup"] is bool
    assert typing.get_args(types["recovery_action"]) == ("retry", "pending", "fail", "none")


@pytest.mark.proves("CFG-02")
@pytest.mark.parametrize(
    "wrong",
    [
        {"recovery_action": "explode"},
        {"recovery_action_by_kind": {"work": "explode"}},
        {"recovery_mode": "sometimes"},
        {"max_recovery_attempts": -1},
        {"max_recovery_attempts": "3"},
        {"integrity_check_on_startup": 1},
        {"detection_interval_seconds": -1},
    ],
)
def test_what_is_no_option_is_refused_when_it_is_given(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidInput, match=name):
        Settings(**wrong)  # type: ignore[arg-type]
