"""Random programs against the queue and against a model of it, with a manual clock and crashes.

Each example is a program of some fifty steps on a real file: three Outlast objects in two
processes put work in, take it out, settle it well and badly, lose leases, close and die, while the
clock passes and the wall clock is set. After every step all that can be read of the queue must be
what the model says; in the end all work that is left is finished.

Hypothesis prints the steps of a failing example, shortened, and a line to reproduce it. To hunt
for longer, name the number of examples for each test:

    OUTLAST_PROPERTY_EXAMPLES=2000 ./run test tests/property

The crashes are simulated, by the thousand (see tests/support/crash.py); real kills of real
processes have tests of their own.
"""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machines import AnythingHappens, KeysAreRepeated, LeasesAreLost

EXAMPLES = int(os.environ.get("OUTLAST_PROPERTY_EXAMPLES", "50"))

# A failing example is shortened for minutes before it is shown, which is worth the wait.
pytestmark = pytest.mark.timeout(900 + 5 * EXAMPLES)

SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=50,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Thousands of deaths make a log that nobody reads."""
    with caplog.at_level(logging.CRITICAL, logger="outlast"):
        yield


@pytest.mark.proves("QUE-28")
def test_whatever_happens_each_task_has_exactly_one_accepted_result() -> None:
    """And runs at least once before; everything else about the queue is as the model says, too."""
    run_state_machine_as_test(AnythingHappens, settings=SETTINGS)


def test_a_task_that_changes_hands_obeys_only_the_last_of_them() -> None:
    run_state_machine_as_test(LeasesAreLost, settings=SETTINGS)


def test_a_repeated_key_finds_its_task_until_that_is_over() -> None:
    run_state_machine_as_test(KeysAreRepeated, settings=SETTINGS)
