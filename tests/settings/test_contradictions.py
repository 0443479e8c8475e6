"""What cannot work together is refused before anything starts, in a sentence that names both."""

from pathlib import Path
from typing import Any

import pytest

from outlast import InvalidInput, Outlast, Settings
from outlast.settings import Heartbeat
from tests.settings.conftest import Write

CONTRADICTIONS = [
    ({"heartbeat_interval_seconds": 30, "heartbeat_stale_seconds": 59.9}, "at least twice"),
    ({"heartbeat_stale_seconds": 59.9, "heartbeat_interval_seconds": None}, "at least twice"),
    ({"lease_seconds": 60, "heartbeat_interval_seconds": 30}, "longer than two beats"),
    ({"lease_seconds": 10, "heartbeat_interval_seconds": 30}, "longer than two beats"),
    (
        {"lease_seconds_by_kind": {"quick": 5, "slow": 900}, "heartbeat_interval_seconds": 30},
        "longer than two beats",
    ),
    ({"heartbeat_timeout_seconds": 30, "heartbeat_interval_seconds": 30}, "shorter than"),
    ({"heartbeat_timeout_seconds": 31, "heartbeat_interval_seconds": None}, "shorter than"),
    ({"retry_backoff_cap_seconds": 5, "retry_backoff_seconds": 6}, "no shorter than"),
]


@pytest.mark.proves("CFG-06")
@pytest.mark.parametrize(("combination", "why"), CONTRADICTIONS)
def test_a_contradiction_is_refused_in_one_sentence_that_names_both_knobs(
    combination: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        Settings(**combination)
    sentence = str(refused.value)
    assert all(name in sentence for name in combination)
    assert "\n" not in sentence
    assert ". " not in sentence


@pytest.mark.proves("CFG-06")
@pytest.mark.parametrize(
    "combination",
    [
        {"heartbeat_interval_seconds": 30, "heartbeat_stale_seconds": 60},
        {"heartbeat_interval_seconds": 30, "lease_seconds": 60.001},
        {"heartbeat_interval_seconds": 30, "heartbeat_timeout_seconds": 29.999},
        {"retry_backoff_cap_seconds": 5, "retry_backoff_seconds": 5},
    ],
)
def test_what_just_fits_is_taken(combination: dict[str, Any]) -> None:
    settings = Settings(**combination)
    assert {name: getattr(settings, name) for name in combination} == combination


@pytest.mark.proves("CFG-06")
@pytest.mark.parametrize(
    "name", ["heartbeat_interval_seconds", "heartbeat_stale_seconds", "heartbeat_timeout_seconds"]
)
@pytest.mark.parametrize("period", [0, -1, 0.0001])
def test_a_period_of_the_beat_that_is_not_positive_is_refused(name: str, period: float) -> None:
    with pytest.raises(InvalidInput, match=rf"^setting {name} must be a number of seconds from"):
        Settings(**{name: period})  # type: ignore[arg-type]


@pytest.mark.proves("CFG-06")
def test_a_contradiction_between_file_and_environment_stops_the_start(
    database: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    """Each is fine alone; together they keep the program from touching the store."""
    path = write("[queue.heartbeat]\nintervalSeconds = 30")
    monkeypatch.setenv("OUTLAST_SETTINGS", str(path))
    assert Outlast(database)._handle.settings.heartbeat.interval_ms == 30_000
    monkeypatch.setenv("OUTLAST_LEASE_SECONDS", "45s")
    with pytest.raises(InvalidInput, match=r"lease_seconds \(45\).*interval_seconds \(30\)"):
        Outlast(database).enqueue("work")
    assert not database.exists()


@pytest.mark.parametrize(
    ("given", "times"),
    [
        ({}, Heartbeat(30_000, 90_000, 10_000, 5_000)),
        ({"lease_seconds": 90}, Heartbeat(30_000, 90_000, 10_000, 5_000)),
        ({"lease_seconds": 30}, Heartbeat(10_000, 30_000, 10_000, 3_333)),
        ({"lease_seconds_by_kind": {"a": 6}}, Heartbeat(2_000, 6_000, 10_000, 667)),
        ({"heartbeat_interval_seconds": 6}, Heartbeat(6_000, 18_000, 10_000, 2_000)),
        ({"heartbeat_interval_seconds": 60}, Heartbeat(60_000, 180_000, 10_000, 5_000)),
        ({"heartbeat_stale_seconds": 200}, Heartbeat(30_000, 200_000, 10_000, 5_000)),
        ({"heartbeat_timeout_seconds": 9}, Heartbeat(30_000, 90_000, 10_000, 9_000)),
        ({"heartbeat_grace_seconds": 0}, Heartbeat(30_000, 90_000, 0, 5_000)),
        ({"lease_seconds": 0.001}, Heartbeat(1, 1, 10_000, 1)),
    ],
)
def test_what_is_left_open_is_worked_out_to_fit(given: dict[str, Any], times: Heartbeat) -> None:
    """A short lease alone is no contradiction: the beat becomes quicker."""
    assert Settings(**given).heartbeat == times
