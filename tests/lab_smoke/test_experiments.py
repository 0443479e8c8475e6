"""Every experiment of the laboratory in its smallest size, so that one that has broken shows soon.

The laboratory's own tests are in lab/tests; each of these only sees its experiment try something.
"""

from pathlib import Path
from typing import Any

import pytest

from outlast_lab.experiment import Finding, Findings, Plan
from outlast_lab.experiments import EXPERIMENTS, experiment

# One case each, or the few that are the least an experiment tries; a round of chaos with four
# processes, a kill and a crash of all.
SMALL: dict[str, dict[str, Any]] = {
    "power": {"case": "enqueue", "cases": 20},
    "io": {"case": "enqueue: write wal 2 full once"},
    "kill": {"case": "probe settle/settle.committed#1"},
    "zombie": {
        "case": "renew after it was taken over by another, stopped before it asked, by claim"
    },
    "chaos": {"case": "round 33 of 0.5 s"},
    "clock": {"case": "plus 1h against the host's clocks/holder lives"},
    "misuse": {"case": "by hand: a token is raised"},
    "model": {"cases": 2},
}


def assert_tried_and_sound(findings: Findings) -> None:
    """Silence is good news only from an experiment that has tried something."""
    assert findings.cases > 0, findings.notes
    assert findings.violations == []
    assert findings.broke is None


def test_every_experiment_has_a_small_size() -> None:
    assert SMALL.keys() == EXPERIMENTS.keys()


@pytest.mark.parametrize("name", SMALL)
def test_an_experiment_in_small_tries_something_and_finds_nothing(
    tmp_path: Path, name: str
) -> None:
    plan = Plan(tmp_path.resolve(), **SMALL[name])
    assert_tried_and_sound(experiment(name).run(plan))


@pytest.mark.parametrize(
    "findings",
    [
        Findings("kill", 0, [], 1.0, 1),
        Findings("kill", 1, [Finding("lost: t1", "a case")], 1.0, 1),
        Findings("kill", 1, [], 1.0, 1, broke="StopIteration"),
    ],
    ids=["nothing tried", "something found", "broken off"],
)
def test_any_other_end_would_be_noticed(findings: Findings) -> None:
    with pytest.raises(AssertionError):
        assert_tried_and_sound(findings)
