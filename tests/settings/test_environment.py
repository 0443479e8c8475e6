"""The variables, what passes for a misspelt one, and what it costs that nobody sets any."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, Settings
from tests.settings.conftest import Write

FOR_A_SERVICE_CALLED_OUTLAST = {
    "OUTLAST_SERVICE_HOST": "10.0.0.7",
    "OUTLAST_SERVICE_PORT": "80",
    "OUTLAST_SERVICE_PORT_HTTP": "80",
    "OUTLAST_PORT": "tcp://10.0.0.7:80",
    "OUTLAST_PORT_80_TCP": "tcp://10.0.0.7:80",
    "OUTLAST_PORT_80_TCP_PROTO": "tcp",
    "OUTLAST_PORT_80_TCP_ADDR": "10.0.0.7",
}


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("OUTLAST_LEESE_SECONDS", "OUTLAST_LEASE_SECONDS"),
        ("OUTLAST_LEASE", "OUTLAST_LEASE_SECONDS"),
        ("OUTLAST_MAX_RETRY", "OUTLAST_MAX_RETRIES"),
        ("OUTLAST_lease_seconds", "OUTLAST_LEASE_SECONDS"),
        ("OUTLAST_SETTING", "OUTLAST_SETTINGS"),
        ("OUTLAST_STORES", "OUTLAST_STORE"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_known_name(
    variable: str, meant: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings.load(environ={variable: "5"})
    assert str(refused.value) == (
        f"environment variable {variable} is not known; did you mean {meant}?"
    )


def test_variables_that_resemble_no_setting_are_left_alone_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A cluster sets them by itself, and a program must start there."""
    others = {"OUTLAST_DEBUG": "1", "OUTLAST_STORE": "a.db", "_OUTLAST_COMPLETE": "x", "HOME": "/"}
    assert Settings.load(environ=FOR_A_SERVICE_CALLED_OUTLAST | others) == Settings()
    (record,) = caplog.records
    names = ", ".join(sorted(FOR_A_SERVICE_CALLED_OUTLAST))
    assert record.getMessage() == f"environment: {names} are not settings of Outlast"


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("LEASE_SECONDS", "soon", 'must look like "90s", "5m" or "1h30m", not \'soon\''),
        ("LEASE_SECONDS", "0", "must be a number of seconds from 0.001"),
        ("LEASE_SECONDS", "nan", "must be a number of seconds from 0.001"),
        ("LEASE_SECONDS", "inf", "must be a number of seconds from 0.001"),
        ("LEASE_SECONDS", "-5", "must be a number of seconds from 0.001"),
        ("MAX_RETRIES", "three", "must be a whole number from 0 to 1000000, not 'three'"),
        ("MAX_RETRIES", "-1", "must be a whole number from 0 to 1000000, not '-1'"),
        ("MAX_RETRIES", "1.0", "must be a whole number from 0 to 1000000, not '1.0'"),
        ("HEAL_AT_CLAIM", "perhaps", "must be true or false, not 'perhaps'"),
        ("RECOVERY_ACTION", "no", "must be one of retry, pending, fail, none, not 'no'"),
        ("RECOVERY_MODE", "on", "must be one of auto, manual, off, not 'on'"),
        ("RECOVERY_ACTION_BY_KIND", "mail", 'must be text like "render=none,mail=fail"'),
        ("RECOVERY_ACTION_BY_KIND", "a=fail,b=x", r"_BY_KIND\['b'\] must be one of retry, pending"),
        ("DETECTION_INTERVAL_SECONDS", "-1", "must be a number of seconds from 0 to"),
        ("LEASE_SECONDS_BY_KIND", "render", 'must be text like "render=10m,mail=30s"'),
        ("LEASE_SECONDS_BY_KIND", "=5m", 'must be text like "render=10m,mail=30s"'),
        ("LEASE_SECONDS_BY_KIND", "a=5m,b=", r"OUTLAST_LEASE_SECONDS_BY_KIND\['b'\] must look"),
        ("WORKSPACE", "~nobody-has-this-name/x", "names a home folder that nobody has"),
    ],
)
def test_a_variable_that_cannot_work_is_refused_by_its_name(
    variable: str, text: str, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint) as refused:
        Settings.load(environ={f"OUTLAST_{variable}": text})
    assert str(refused.value).startswith(f"environment variable OUTLAST_{variable}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["true", "Yes", "ON", "1", " true "])
def test_a_switch_is_on_in_the_words_people_use(text: str) -> None:
    assert Settings.load(environ={"OUTLAST_ALLOW_NETWORK_FILESYSTEM": text}) == Settings(
        allow_network_filesystem=True
    )


@pytest.mark.parametrize("text", ["false", "No", "OFF", "0"])
def test_a_switch_is_off_in_the_words_people_use(text: str) -> None:
    assert Settings.load(environ={"OUTLAST_HEAL_AT_CLAIM": text}) == Settings(heal_at_claim=False)


@pytest.mark.parametrize("value", [90, 90.0, "90", "90s", "1m30s", " 90 ", timedelta(seconds=90)])
def test_a_period_is_a_number_a_text_or_a_timedelta(value: Any) -> None:
    assert Settings.load(lease_seconds=value).lease_seconds == 90


def test_an_unknown_argument_is_refused_with_the_nearest_known_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings.load(leese_seconds=5)
    assert str(refused.value) == "setting leese_seconds is not known; did you mean lease_seconds?"


@pytest.mark.proves("CFG-10")
def test_the_workspace_is_beside_the_database_unless_it_is_set(
    write: Write, tmp_path: Path
) -> None:
    database = tmp_path / "data" / "work.db"
    assert Settings().workspace_for(database) == tmp_path / "data"
    by_argument = Settings.load(workspace=Path("aside"))
    assert by_argument.workspace_for(database) == Path("aside").absolute()
    by_variable = Settings.load(environ={"OUTLAST_WORKSPACE": "aside"})
    assert by_variable == by_argument == Settings(workspace="aside")
    by_file = Settings.load(write('workspace = "aside"'))
    assert by_file.workspace_for(database) == tmp_path / "aside"
    at_home = Settings(workspace="~/aside").workspace_for(database)
    assert at_home == Path.home() / "aside"


@pytest.mark.proves("CFG-10")
def test_the_workspace_stays_where_it_was_whatever_the_current_folder_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(workspace="aside")
    was = Path("aside").absolute()
    monkeypatch.chdir(tmp_path)
    assert settings.workspace_for(tmp_path / "work.db") == was


_COST = """
import sys
import outlast
outlast.Outlast(sys.argv[1]).open().close()
print(*sorted({"tomllib", "difflib", "yaml", "outlast.settings.loading"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("variables", "loaded"),
    [({}, ""), ({"OUTLAST_MAX_RETRIES": "1"}, "outlast.settings.loading")],
)
def test_who_has_no_settings_file_does_not_import_what_reads_one(
    database: Path, variables: dict[str, str], loaded: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COST, str(database)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=dict(os.environ) | variables,
    )
    assert done.stdout.split() == loaded.split()


def test_a_wrong_variable_is_told_when_the_object_is_made(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_MAX_RETRIES", "many")
    with pytest.raises(InvalidInput, match="environment variable OUTLAST_MAX_RETRIES"):
        Outlast(database)
