"""Arguments win over variables, variables over the file, the file over the defaults."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast import AsyncOutlast, InvalidInput, Outlast, Settings
from outlast.settings import load
from outlast.testing import ManualClock
from tests.settings.conftest import Write


class Sample(NamedTuple):
    """A value for each source; each differs from the one it has to win over."""

    in_file: Any
    in_variable: str
    as_argument: Any
    variable_value: Any


PERIOD = Sample(61, "62", "63s", 62)
COUNT = Sample(61, "62", 63, 62)
SAMPLES = {
    "lease_seconds": PERIOD,
    "lease_seconds_by_kind": Sample({"a": 61}, "a=62, b=5m", {"a": "63s"}, {"a": 62, "b": 300}),
    "max_retries": COUNT,
    "max_recovery_attempts": COUNT,
    "recovery_enabled": Sample(False, "yes", False, True),
    "recovery_mode": Sample("manual", "OFF", "auto", "off"),
    "recovery_action": Sample("fail", "pending", "retry", "pending"),
    "recovery_action_by_kind": Sample(
        {"a": "none"}, "a=fail, b=pending", {"a": "retry"}, {"a": "fail", "b": "pending"}
    ),
    "integrity_check_on_startup": Sample(False, "on", False, True),
    "exclusive": Sample(True, "0", True, False),
    "retry_backoff_seconds": PERIOD,
    "retry_backoff_cap_seconds": PERIOD,
    "idempotency_ttl_seconds": PERIOD,
    "lock_ttl_seconds": PERIOD,
    "heartbeat_interval_seconds": PERIOD,
    "heartbeat_stale_seconds": PERIOD,
    "heartbeat_grace_seconds": PERIOD,
    "heartbeat_timeout_seconds": Sample(11, "12s", 13, 12),
    "prefetch": COUNT,
    "settle_delay_seconds": PERIOD,
    "shutdown_seconds": PERIOD,
    "heal_at_claim": Sample(False, "on", False, True),
    "heal_interval_seconds": PERIOD,
    "heal_batch": COUNT,
    "detection_interval_seconds": PERIOD,
    "cursor_retention_seconds": PERIOD,
    "open_timeout_seconds": PERIOD,
    "write_timeout_seconds": PERIOD,
    "stall_seconds": PERIOD,
    "migrate": Sample("manual", "auto", "manual", "auto"),
    "synchronous": Sample("normal", "FULL", "normal", "full"),
    "max_waiting_writes": COUNT,
    "flush_pages": COUNT,
    "flush_commits": COUNT,
    "wal_limit_bytes": COUNT,
    "allow_network_filesystem": Sample(True, "no", True, False),
    "workspace": Sample("/a/file", "/a/variable", "/an/argument", "/a/variable"),
}
ARGUMENT_VALUES = {"63s": 63}


def test_every_knob_has_a_sample_here() -> None:
    assert set(SAMPLES) == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.proves("CFG-07")
@pytest.mark.parametrize("suffix", ["toml", "yaml"])
@pytest.mark.parametrize("name", SAMPLES)
def test_an_argument_wins_over_a_variable_and_a_variable_over_the_file(
    name: str, suffix: str, write: Write
) -> None:
    sample = SAMPLES[name]
    path = write(_file_of(name, sample.in_file, suffix), f"my.{suffix}")
    variables = {f"OUTLAST_{name.upper()}": sample.in_variable}

    def found(environ: dict[str, str], **arguments: Any) -> Any:
        return getattr(Settings.load(path, environ, **arguments), name)

    assert getattr(Settings(), name) != sample.in_file
    assert found({}) == sample.in_file
    assert found(variables) == sample.variable_value != sample.in_file
    argument = sample.as_argument
    expected = argument
    if name == "lease_seconds_by_kind":
        expected = {"a": 63}
    elif not isinstance(argument, dict):
        expected = ARGUMENT_VALUES.get(argument, argument)
    assert found(variables, **{name: argument}) == expected != sample.variable_value
    assert found({}, **{name: argument}) == expected


def _file_of(name: str, value: Any, suffix: str) -> str:
    """JSON is YAML; TOML differs from it in its tables alone."""
    if suffix == "yaml":
        return json.dumps({"outlast": {name: value}})
    if isinstance(value, dict):
        return f"[{name}]\n" + "".join(f"{key} = {json.dumps(one)}\n" for key, one in value.items())
    return f"{name} = {json.dumps(value)}\n"


@pytest.mark.proves("CFG-07")
def test_each_source_speaks_only_of_what_it_knows(write: Write) -> None:
    path = write("lease_seconds = 70\nmax_retries = 7\nprefetch = 77")
    environ = {"OUTLAST_MAX_RETRIES": "8", "OUTLAST_PREFETCH": "88"}
    settings = Settings.load(path, environ, prefetch=99)
    assert (settings.lease_seconds, settings.max_retries, settings.prefetch) == (70, 8, 99)
    assert settings.heal_batch == Settings().heal_batch


def test_an_argument_that_is_none_and_an_empty_variable_are_not_given(write: Write) -> None:
    path = write("lease_seconds = 70")
    settings = Settings.load(path, {"OUTLAST_LEASE_SECONDS": ""}, lease_seconds=None)
    assert settings.lease_seconds == 70


def test_a_program_that_gives_no_settings_obeys_the_environment(
    database: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    """Seen in what a claim really hands out, not in the object alone."""
    monkeypatch.setenv("OUTLAST_SETTINGS", str(write("lease_seconds = 7\nmax_retries = 0")))
    monkeypatch.setenv("OUTLAST_LEASE_SECONDS", "8s")
    with Outlast(database, clock=clock) as app:
        app.enqueue("work", id="t1")
        (lease,) = app.claim("w")
        assert lease.lease_ms == 8000
        lease.fail("no")
        assert app.get("t1").status == "failed"
    assert AsyncOutlast(database)._handle.settings.lease_seconds == 8


def test_settings_that_are_given_are_taken_as_they_stand(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_LEASE_SECONDS", "nonsense")
    app = Outlast(database, settings=Settings(max_retries=1))
    assert app._handle.settings == Settings(max_retries=1)
    with pytest.raises(InvalidInput, match="OUTLAST_LEASE_SECONDS"):
        Outlast(database)


def test_a_file_in_the_current_folder_is_for_the_command_line_alone(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("outlast.toml").write_text('store = "here.db"\nlease_seconds = 7\n')
    assert Outlast(database)._handle.settings == Settings()
    monkeypatch.setenv("OUTLAST_MAX_RETRIES", "1")
    assert Outlast(database)._handle.settings == Settings(max_retries=1)
    loaded = load()
    assert loaded.settings.lease_seconds == 7
    assert loaded.file == Path("outlast.toml").absolute()
    assert loaded.store == str(Path("here.db").absolute())


def test_the_file_that_is_given_comes_before_the_one_in_the_environment(write: Write) -> None:
    given, named = write("max_retries = 1", "given.toml"), write("max_retries = 2", "named.toml")
    Path("outlast.yaml").write_text("max_retries: 3\n")
    environ = {"OUTLAST_SETTINGS": str(named)}
    assert Settings.load(given, environ).max_retries == 1
    assert Settings.load(None, environ).max_retries == 2
    assert Settings.load().max_retries == 3
    assert load(environ={}, search=False).settings.max_retries == 3 == Settings().max_retries


def test_the_store_of_the_environment_comes_before_that_of_the_file(write: Write) -> None:
    path = write('store = "file.db"')
    assert load(path, {"OUTLAST_STORE": "variable.db"}).store == "variable.db"
    assert load(path, {}).store == str(path.with_name("file.db"))
    assert load(environ={}).store is None
