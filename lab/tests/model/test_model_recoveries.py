"""The simulator knows the policies of recovery: each that is planted wrong is found by it."""

from pathlib import Path
from typing import Any

import pytest

from outlast.domain import lifecycle
from outlast.domain.lifecycle import Cause, Outcome, Situation, Transition
from outlast.store.ops.recovery import dead_worker, healer, orphans
from outlast.store.ops.recovery.recovery_pass import RecoveryPass
from outlast.store.records import RecoveryPolicy
from outlast_lab.experiments.model.simulation import Run, drawn

pytestmark = pytest.mark.timeout(600)

MOST_CASES = 60


@pytest.fixture
def nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery takes back what its policy says a person has to look at."""
    for module in (orphans, healer, dead_worker):
        monkeypatch.setattr(module, "kinds_concerned", lambda policy: orphans.ALL_KINDS)


@pytest.fixture
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put back runs without anybody's approval."""
    for outcome in (Outcome.CRASH, Outcome.EXPIRE):
        really = lifecycle._RULES[outcome]

        def unheld(situation: Situation, cause: Cause, really: Any = really) -> Transition:
            return really(situation, cause._replace(parked=None))  # type: ignore[no-any-return]

        monkeypatch.setitem(lifecycle._RULES, outcome, unheld)


@pytest.fixture
def kinds_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The action of the store is applied to kinds that have one of their own."""
    monkeypatch.setattr(RecoveryPolicy, "action_for", lambda policy, kind: policy.action)


@pytest.fixture
def force_is_always_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reclaiming takes living leases though nobody said so."""
    really = healer.Healer.reclaim

    def forced(self: healer.Healer, this: RecoveryPass, silent_ms: int, is_forced: bool) -> int:
        return really(self, this, silent_ms, True)

    monkeypatch.setattr(healer.Healer, "reclaim", forced)


def _first_broken(folder: Path, world: str) -> Run:
    for number in range(MOST_CASES):
        done = drawn(folder, f"{world} recoveries {number}", seed=1)
        if done.broken is not None:
            assert "surprise" not in done.broken
            return done
    raise AssertionError("the defect was not found")


@pytest.mark.usefixtures("nothing_is_left_alone")
@pytest.mark.parametrize("world", ["exact", "woven"])
def test_a_task_that_is_to_be_left_alone_and_is_not_is_found(tmp_path: Path, world: str) -> None:
    assert "none" in (found := _first_broken(tmp_path, world)).script.action or "alone" in str(
        found
    )


@pytest.mark.usefixtures("nothing_is_held")
@pytest.mark.parametrize("world", ["exact", "woven"])
def test_a_task_that_runs_without_approval_is_found(tmp_path: Path, world: str) -> None:
    assert _first_broken(tmp_path, world).script.action.endswith("held")


@pytest.mark.usefixtures("kinds_are_alike")
def test_an_action_of_a_kind_that_is_ignored_is_found(tmp_path: Path) -> None:
    action = _first_broken(tmp_path, "exact").script.action
    assert "for b" in action or action == "pending held"


@pytest.mark.usefixtures("force_is_always_used")
def test_a_living_lease_that_is_reclaimed_without_force_is_found(tmp_path: Path) -> None:
    assert "reclaim_stale" in str(_first_broken(tmp_path, "exact"))
