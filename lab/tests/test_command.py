"""`outlast lab`: what it says of what experiments found and did not try, and how it ends."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import cli
from outlast.errors import InvalidInput
from outlast_lab import laboratory
from outlast_lab.experiment import Finding, Findings, Plan

Run = Callable[[Plan], Findings]
Lab = Callable[..., Result]


class Stub:
    """An experiment that does what a test says."""

    def __init__(self, run: Run) -> None:
        self.run = run


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """Calls the command with experiments of the test's own in the place of the real ones."""

    def call(run: Run | dict[str, Run], *words: str) -> Result:
        runs = run if isinstance(run, dict) else dict.fromkeys(("model", "kill"), run)
        monkeypatch.setattr(laboratory, "experiment", lambda name: Stub(runs[name]))
        keep = ["--keep", str(tmp_path / "kept")]
        return CliRunner().invoke(cli, ["lab", *words, "--seed", "7", *keep])

    return call


def found(plan: Plan, cases: int = 3, *violations: Finding, **fields: Any) -> Findings:
    return Findings("model", cases, list(violations), 0.1, plan.seed, **fields)


def test_silence_after_some_cases_is_good_news(lab: Lab) -> None:
    result = lab(found, "model")
    assert result.exit_code == 0
    assert "No promise was broken." in result.stdout


def test_silence_after_no_case_at_all_is_not(lab: Lab) -> None:
    """Somebody who gave it too little time must not go away reassured."""
    result = lab(lambda plan: found(plan, 0), "model", "--seconds", "0.1")
    assert result.exit_code == 1
    assert "Nothing was tried by model: give it more time" in result.stdout
    assert "No promise was broken" not in result.stdout


def test_violations_of_one_case_are_told_together_with_the_words_explained(lab: Lab) -> None:
    two = [Finding("lost: t1 is gone", "case 'a'"), Finding("zombie: t1 wrote", "case 'a'")]
    result = lab(lambda plan: found(plan, 3, *two), "model")
    assert result.exit_code == 1
    assert result.stdout.count("VIOLATION in") == 1
    assert "lost: t1 is gone" in result.stdout
    assert "zombie: t1 wrote" in result.stdout
    (again,) = [line for line in result.stdout.splitlines() if "try it again: " in line]
    assert shlex.split(again.partition("again: ")[2])[-2:] == ["--case", "case 'a'"]
    assert "lost: what was acknowledged is not there (promise 1)" in result.stdout
    assert "2 violations." in result.stdout


def test_the_command_to_try_again_names_the_folder_that_was_tried(lab: Lab, tmp_path: Path) -> None:
    one = Finding("lost: t1", "a case")
    result = lab(lambda plan: found(plan, 1, one), "model", "--folder", str(tmp_path))
    assert f"--case 'a case' --folder {tmp_path}" in result.stdout


def test_an_experiment_that_breaks_takes_nothing_else_with_it(lab: Lab) -> None:
    def breaks(plan: Plan) -> Findings:
        raise StopIteration("who would have thought")

    one = Finding("lost: t1 is gone", "a case")
    runs: dict[str, Run] = {"model": lambda plan: found(plan, 1, one), "kill": breaks}
    result = lab(runs, "model", "kill")
    assert result.exit_code == 70
    assert "lost: t1 is gone" in result.stdout
    assert "kill: the experiment itself broke: StopIteration: who would have" in result.stdout


def test_an_interrupted_run_tells_what_it_saw(lab: Lab) -> None:
    def interrupted(plan: Plan) -> Findings:
        raise KeyboardInterrupt

    one = Finding("lost: t1 is gone", "a case")
    runs: dict[str, Run] = {"model": lambda plan: found(plan, 1, one), "kill": interrupted}
    result = lab(runs, "model", "kill")
    assert result.exit_code == 130
    assert "lost: t1 is gone" in result.stdout
    assert "Interrupted" in result.stdout


def test_a_case_that_there_is_not_is_refused_in_one_sentence(lab: Lab) -> None:
    def refuses(plan: Plan) -> Findings:
        raise InvalidInput(f"there is no case {plan.case!r}")

    result = lab(refuses, "model", "--case", "nonsense")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "outlast: there is no case 'nonsense'"


@pytest.mark.parametrize(
    "words", [["--seconds", "5"], ["--case", "x"], ["all", "--case", "x"], ["list"]]
)
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    result = CliRunner().invoke(cli, ["lab", *words])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_evidence_that_cannot_be_kept_costs_no_finding(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file, where a folder should be")

    def keeps(plan: Plan) -> Findings:
        evidence = plan.keep_evidence("a case", [], what="lost")
        return found(plan, 1, Finding("lost: t1 is gone", "a case", evidence))

    result = lab(keeps, "model")
    assert result.exit_code == 1
    assert "lost: t1 is gone" in result.stdout
    assert "the evidence of 'a case' could not be kept" in result.stdout


def test_each_run_keeps_its_evidence_apart(lab: Lab, tmp_path: Path) -> None:
    def keeps(plan: Plan) -> Findings:
        plan.keep_evidence("a case", [], what="one")
        plan.keep_evidence("a case", [], what="two")
        plan.keep_evidence("a-case", [], what="three")
        return found(plan)

    lab(keeps, "model")
    lab(keeps, "model")
    runs = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert runs == ["model-7", "model-7-2"]
    texts = [path.read_text() for path in (tmp_path / "kept" / "model-7").glob("*/what.txt")]
    assert sorted(texts) == ["one\ntwo\n", "three\n"]


def test_machines_are_told_all_of_it(lab: Lab) -> None:
    one = Finding("lost: t1 is gone", "a case")
    fields = {"figures": {"steps": 9}, "notes": ["no strace here"]}
    result = lab(lambda plan: found(plan, 4, one, **fields), "model", "--json")
    told = json.loads(result.stdout)
    assert (told["violations"], told["untried"], told["interrupted"]) == (1, [], False)
    (experiment,) = told["experiments"]
    assert experiment["figures"] == {"steps": 9}
    assert experiment["notes"] == ["no strace here"]
    assert experiment["violations"][0]["replay"] == "outlast lab model --seed 7 --case 'a case'"


def test_figures_are_for_those_who_ask(lab: Lab) -> None:
    def counts(plan: Plan) -> Findings:
        return found(plan, 4, figures={"steps": 1234, "possible cases": 99})

    assert "steps" not in lab(counts, "model").stdout
    assert "steps: 1,234" in lab(counts, "model", "-v").stdout
    assert "4 of 99" in lab(counts, "model").stdout
