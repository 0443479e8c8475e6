"""The simulator in small: some ten thousand steps, in shares that run side by side.

To hunt for longer, or with another seed: `outlast lab model --seconds 600 --seed 7`.
"""

from pathlib import Path

import pytest

from outlast_lab.experiment import Plan
from outlast_lab.model import run
from outlast_lab.model.simulation import STEPS, drawn
from outlast_lab.model.terms import POLICIES

pytestmark = pytest.mark.timeout(600)

SEED = 1
SHARE = 6
EXACT = [
    (profile, share)
    for profile in ("anything", "leases", "keys", "recoveries")
    for share in range(2)
]
WOVEN = [("calls", share) for share in range(5)] + [("recoveries", share) for share in range(2)]
"""2,400 steps of whole calls, 8,400 of calls that are woven into each other."""


def _share(folder: Path, kind: str, share: int) -> None:
    for number in range(share * SHARE, (share + 1) * SHARE):
        done = drawn(folder, f"{kind} {number}", SEED)
        assert done.broken is None, f"seed {SEED}, case '{kind} {number}': {done.broken}\n{done}"
        assert len(done.script.steps) == STEPS[done.script.world]


@pytest.mark.proves("TST-38", "QUE-28")
@pytest.mark.parametrize(("profile", "share"), EXACT)
def test_whatever_is_called_the_queue_follows_its_model(
    tmp_path: Path, profile: str, share: int
) -> None:
    """In all that can be read, after each step; each task has exactly one accepted result."""
    _share(tmp_path, f"exact {profile}", share)


@pytest.mark.proves("TST-38", "QUE-28")
@pytest.mark.parametrize(("profile", "share"), WOVEN)
def test_however_calls_are_interleaved_and_broken_off_each_change_has_its_author(
    tmp_path: Path, profile: str, share: int
) -> None:
    """At the boundaries of transactions, with crashes between and inside of them."""
    _share(tmp_path, f"woven {profile}", share)


def test_every_policy_of_recovery_has_its_turn(tmp_path: Path) -> None:
    left = set(POLICIES)
    for number in range(100):
        left.discard(drawn(tmp_path, f"exact recoveries {number}", SEED, steps=0).script.action)
        if not left:
            return
    pytest.fail(f"never drawn: {left}")


def test_the_experiment_tells_how_much_it_tried(tmp_path: Path) -> None:
    told: list[str] = []
    findings = run(Plan(tmp_path, seed=3, cases=6, progress=told.append))
    assert findings.violations == []
    assert findings.cases == 6
    assert findings.figures["steps_exact"] == 4 * STEPS["exact"]
    assert findings.figures["steps_woven"] == 2 * STEPS["woven"]
    assert len(told) == 6


def test_all_cases_of_one_kind_can_be_asked_for(tmp_path: Path) -> None:
    findings = run(Plan(tmp_path, cases=2, case="exact keys"))
    assert (findings.cases, findings.figures["steps_exact"]) == (2, 2 * STEPS["exact"])
    assert findings.figures["steps_woven"] == 0
