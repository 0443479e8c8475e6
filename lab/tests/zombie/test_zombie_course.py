"""The course of `lab zombie`: what is played, how often, and by which name a finding goes."""

from collections import Counter
from pathlib import Path

import pytest

from outlast_lab.experiment import Broken, Plan
from outlast_lab.experiments.zombie import inside, matrix, running, working
from outlast_lab.experiments.zombie.cases import BEFORE_WRITING, WITH_A_LIVE_ONE, Case
from outlast_lab.experiments.zombie.meanwhile import Stage
from outlast_lab.judge.row_rules import Violation
from outlast_lab.stage.actors import Actor, Company


def test_each_kind_is_played_once_at_least_whatever_the_time(tmp_path: Path) -> None:
    findings = running.run(Plan(tmp_path, seconds=0.0))
    assert findings.figures == {"writes": 1, "writers": 1, "workers": 1}


def test_after_a_finding_the_rest_is_played_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the time comes after the small kinds, and goes on where the first part ended.

    Each case takes a second here, as the plan sees it.
    """
    seen: list[Case] = []

    def play(stage: Stage, case: Case, task_id: str) -> None:
        seen.append(case)
        if len(seen) in (2, 7):
            raise Broken("something")

    monkeypatch.setattr(matrix, "_play", play)
    monkeypatch.setattr(Plan, "elapsed_seconds", lambda self: len(seen))
    monkeypatch.setattr(inside, "CASES", ())
    monkeypatch.setattr(working, "CASES", ())
    plan = Plan(tmp_path, seconds=10.0)
    findings = running.run(plan)
    assert [one.what for one in findings.violations] == ["something"] * 2
    assert seen == matrix.chosen_cases(plan)[:10]
    assert findings.cases == 10


@pytest.mark.parametrize("times_late", [2, 3])
def test_what_is_late_is_a_finding_only_if_it_is_late_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times_late: int
) -> None:
    """A machine has delays of its own; those of Outlast come again."""
    folders: list[Path] = []
    play = inside._play_writing

    def late(case: inside.Case, folder: Path, company: Company) -> None:
        folders.append(folder)
        play(case, folder, company)
        if len(folders) <= times_late:
            raise inside.Late("it took long")

    monkeypatch.setattr(inside, "_play_writing", late)
    with Company() as company:
        found = list(inside.play(inside.CASES[:1], Plan(tmp_path), company, Counter()))
    assert [one.what for one in found] == ["it took long"] * (times_late == inside.MOST_LATE)
    assert len(folders) == inside.MOST_LATE


@pytest.mark.parametrize("task_id", ["", "t0", "t0-own", "t0-meanwhile"])
def test_a_finding_is_named_by_a_case_that_can_be_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task_id: str
) -> None:
    monkeypatch.setattr(matrix, "_play", lambda *arguments: None)
    broken = [Violation("damage", task_id, "something")]
    monkeypatch.setattr(matrix, "violations", lambda *arguments: broken)
    case = matrix.CASES[0]
    with Company() as company:
        (found,) = matrix.play([case], Plan(tmp_path), company, Counter())
    assert found.case == str(case)


def test_a_live_lease_beside_a_lost_one_is_completed_with_it_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    real = Actor.tell

    def tell(self: Actor, verb: str, *arguments: object, **options: object) -> None:
        told.append(verb)
        real(self, verb, *arguments, **options)

    monkeypatch.setattr(Actor, "tell", tell)
    cases = [case for case in matrix.CASES if case.verb == WITH_A_LIVE_ONE]
    case = next(case for case in cases if case.moment == BEFORE_WRITING)
    with Company() as company:
        assert list(matrix.play([case], Plan(tmp_path), company, Counter())) == []
    assert "writes_with_the_newest" in told
