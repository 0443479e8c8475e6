"""Settings files: TOML and YAML, flat names and nested keys, and every way to get them wrong."""

import sys
from pathlib import Path

import pytest

from outlast import InvalidInput, Outlast, Settings
from outlast.settings import load
from tests.settings.conftest import Write

NESTED_YAML = """\
queue:
  recovery:
    enabled: true
    mode: manual
    action: pending  # retry, fail, pending
    maxRecoveryAttempts: 5
    integrityCheckOnStartup: false

  heartbeat:
    intervalSeconds: 20
    staleThresholdMultiplier: 4
    detectionIntervalSeconds: 45
    graceSeconds: 7
"""
NESTED_TOML = """\
[queue.recovery]
enabled = true
mode = "manual"
action = "pending"
maxRecoveryAttempts = 5
integrityCheckOnStartup = false

[queue.heartbeat]
intervalSeconds = 20
staleThresholdMultiplier = 4
detectionIntervalSeconds = 45
graceSeconds = 7
"""
FLAT = """\
recovery_enabled = true
recovery_mode = "manual"
recovery_action = "pending"
max_recovery_attempts = 5
integrity_check_on_startup = false
detection_interval_seconds = 45
heartbeat_interval_seconds = 20
heartbeat_stale_seconds = "80s"
heartbeat_grace_seconds = "7s"
"""


def test_nested_keys_mean_the_same_as_the_flat_names(write: Write) -> None:
    flat = Settings.load(write(FLAT))
    assert flat.heartbeat.stale_ms == 80_000
    assert (flat.mode, flat.integrity_check_on_startup) == ("manual", False)
    assert flat.detection_interval_seconds == 45
    assert Settings.load(write(f"[outlast]\n{FLAT}")) == flat
    assert Settings.load(write(NESTED_TOML)) == flat
    assert Settings.load(write(NESTED_YAML, "my.yaml")) == flat
    assert Settings.load(write(NESTED_YAML, "my.yml")) == flat


def test_a_nested_key_is_checked_like_its_knob_and_the_log_has_nothing_to_say(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    Settings.load(write(NESTED_TOML))
    assert caplog.records == []
    with pytest.raises(InvalidInput, match=r"integrityCheckOnStartup in .* must be true or false"):
        Settings.load(write("[queue.recovery]\nintegrityCheckOnStartup = 3"))
    with pytest.raises(InvalidInput, match=r"detectionIntervalSeconds in .* must be"):
        Settings.load(write("[queue.heartbeat]\ndetectionIntervalSeconds = -1"))


def test_the_word_off_needs_no_quotes_in_yaml(write: Write) -> None:
    settings = Settings.load(write("queue:\n  recovery:\n    mode: off\n", "my.yaml"))
    assert (settings.recovery_mode, settings.mode, settings.recovers) == ("off", "off", False)


@pytest.mark.parametrize(
    ("interval", "lease", "stale_ms"), [("", "", 90_000), ("60", "", 180_000), ("", "30", 30_000)]
)
def test_the_stale_multiplier_counts_the_intervals_of_whatever_source(
    write: Write, interval: str, lease: str, stale_ms: int
) -> None:
    path = write("[queue.heartbeat]\nstaleThresholdMultiplier = 3")
    environ = {"OUTLAST_HEARTBEAT_INTERVAL_SECONDS": interval, "OUTLAST_LEASE_SECONDS": lease}
    assert Settings.load(path, environ).heartbeat.stale_ms == stale_ms
    assert Settings.load(path, environ, heartbeat_stale_seconds=500).heartbeat.stale_ms == 500_000


@pytest.mark.parametrize("multiplier", ["1.9", "0", "true", '"3"', "nan"])
def test_a_stale_multiplier_below_two_is_refused(write: Write, multiplier: str) -> None:
    path = write(f"[queue.heartbeat]\nstaleThresholdMultiplier = {multiplier}")
    with pytest.raises(InvalidInput, match=r"staleThresholdMultiplier in .* a number from 2"):
        Settings.load(path)


def test_periods_may_be_text_in_a_file(write: Write) -> None:
    text = 'lease_seconds = "1h30m"\nsettle_delay_seconds = "2ms"\n[lease_seconds_by_kind]\na="5m"'
    settings = Settings.load(write(text))
    assert (settings.lease_seconds, settings.settle_delay_seconds) == (5400, 0.002)
    assert dict(settings.lease_seconds_by_kind) == {"a": 300}


def test_a_key_without_a_value_is_not_there(write: Write) -> None:
    text = "lease_seconds:\nstore: null\nqueue:\n  heartbeat:\n    staleThresholdMultiplier:\n"
    loaded = load(write(text, "my.yaml"))
    assert loaded.settings == Settings()
    assert loaded.store is None
    assert load(write("", "my.yaml")).settings == Settings()


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("leese_seconds = 5", "leese_seconds", "lease_seconds"),
        ("leaseSeconds = 5", "leaseSeconds", "lease_seconds"),
        ("lease = 5", "lease", "lease_seconds"),
        ("[outlast]\nmax_retrys = 5", "outlast.max_retrys", "outlast.max_retries"),
        (
            "[queue.hartbeat]\nintervalSeconds = 5",
            "queue.hartbeat.intervalSeconds",
            "queue.heartbeat.intervalSeconds",
        ),
        (
            "[queue.recovery]\nmaxrecoveryattempts = 5",
            "queue.recovery.maxrecoveryattempts",
            "queue.recovery.maxRecoveryAttempts",
        ),
        ('stor = "a.db"', "stor", "store"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_name(
    write: Write, text: str, key: str, meant: str
) -> None:
    path = write(text)
    with pytest.raises(InvalidInput) as refused:
        Settings.load(path)
    sentence = f"{key} in settings file {path} is not known; did you mean {meant}?"
    assert str(refused.value) == sentence


def test_an_unknown_key_that_is_like_no_other_is_refused_too(write: Write) -> None:
    with pytest.raises(InvalidInput, match=r"xyzzy in .* is not known; take it out"):
        Settings.load(write("xyzzy = 5"))


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("my.toml", "lease_seconds = ", "is not proper TOML: Invalid value"),
        ("my.toml", "max_retries = 1\nmax_retries = 2", "is not proper TOML: Cannot overwrite"),
        ("my.yaml", "a: [1", r"is not proper YAML: .*\(at line 1, column 6\)"),
        ("my.yaml", "max_retries: 2024-13-45", "is not proper YAML: month must be"),
        ("my.yaml", "max_retries: !!python/name:os.system", "is not proper YAML: could not"),
        ("my.yaml", "max_retries: 1\nmax_retries: 2", r"key 'max_retries' twice \(at line 2\)"),
        ("my.yaml", "queue: &q\n  recovery: *q", "a table that holds itself"),
        ("my.yaml", "- max_retries", "must hold keys with values"),
        ("my.yaml", "lease_seconds", "must hold keys with values"),
        ("my.json", "{}", "must end in .toml, .yaml or .yml"),
        ("my.toml", "max_retries = 1\n[outlast]\nmax_retries = 1", "max_retries twice, as max_re"),
        (
            "my.toml",
            "heartbeat_stale_seconds = 90\n[queue.heartbeat]\nstaleThresholdMultiplier = 3",
            "says heartbeat_stale_seconds twice",
        ),
        ("my.toml", "lease_seconds = 0", "lease_seconds in settings file .* must be a number of"),
        ("my.toml", 'lease_seconds = "soon"', 'lease_seconds in .* must look like "90s", "5m"'),
        ("my.toml", "max_retries = 1.5", "max_retries in .* must be a whole number from 0"),
        ("my.toml", 'migrate = "maybe"', "migrate in .* must be one of auto, manual, not 'maybe'"),
        ("my.toml", "[lease_seconds_by_kind]\na = 0", r"lease_seconds_by_kind in .*\['a'\] must"),
        ("my.toml", "store = 5", "store in .* must be a path or an sqlite:/// URL, not 5"),
        ("my.yaml", "synchronous: off", "synchronous in .* must be one of full, normal, not False"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_one_sentence(
    write: Write, name: str, text: str, complaint: str
) -> None:
    path = write(text, name)
    with pytest.raises(InvalidInput, match=complaint) as refused:
        Settings.load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.toml cannot be read \(No such file"):
        Settings.load(tmp_path / "nowhere.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InvalidInput, match=r"folder\.toml cannot be read"):
        Settings.load(None, {"OUTLAST_SETTINGS": str(tmp_path / "folder.toml")})
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(InvalidInput, match="must be text in UTF-8"):
        Settings.load(tmp_path / "latin.toml")


def test_two_files_side_by_side_are_refused() -> None:
    Path("outlast.toml").write_text("max_retries = 1\n")
    assert Settings.load().max_retries == 1
    Path("outlast.yml").write_text("max_retries: 2\n")
    with pytest.raises(InvalidInput, match=r"outlast\.toml and outlast\.yml lie side by side"):
        Settings.load()


def test_without_the_extra_a_yaml_file_is_refused_and_the_extra_is_named(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("max_retries: 1", "my.yaml")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InvalidInput, match=r"needs an extra: pip install 'outlast\[yaml\]'"):
        Settings.load(path)
    assert Settings.load(write("max_retries = 1")).max_retries == 1


@pytest.mark.parametrize("key", ["store", "outlast.store", "queue.store"])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("work.db", "{folder}/work.db"),
        ("deep/er.db", "{folder}/deep/er.db"),
        ("/else/where.db", "/else/where.db"),
        ("sqlite:///work.db", "sqlite:///{folder}/work.db"),
        ("sqlite:////else/where%20so.db", "sqlite:////else/where%20so.db"),
        ("postgresql://host/name", "postgresql://host/name"),
        (":memory:", ":memory:"),
    ],
)
def test_the_store_of_a_file_starts_from_its_folder(
    write: Write, key: str, written: str, read: str
) -> None:
    path = write(f'{key} = "{written}"')
    store = load(path).store
    assert store == read.format(folder=path.parent)
    if "sql:" not in written and written != ":memory:":
        assert Outlast(store).path.is_absolute()


def test_a_store_named_by_a_file_is_the_one_that_opens(write: Write, tmp_path: Path) -> None:
    loaded = load(write('store = "sqlite:///the work.db"'))
    assert loaded.store is not None
    with Outlast(loaded.store, settings=loaded.settings):
        assert (tmp_path / "the work.db").exists()
