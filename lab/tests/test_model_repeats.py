"""The same seed makes the same simulation, to the letter; and a script says all of it."""

from pathlib import Path

import pytest

from outlast import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.model import run
from outlast_lab.model.script import NotAScript, Script, Step, clock, parse, wall_clock
from outlast_lab.model.simulation import drawn, repeated

CASES = ["exact anything 3", "exact leases 3", "exact keys 3", "woven calls 3", "woven calls 4"]


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_makes_the_same_steps_and_answers_to_the_letter(
    tmp_path: Path, case: str
) -> None:
    first, second = (drawn(tmp_path, case, seed=11) for _ in range(2))
    assert str(first) == str(second)
    assert str(first) != str(drawn(tmp_path, case, seed=12))


@pytest.mark.parametrize("case", CASES)
def test_a_script_is_repeated_with_the_same_answers(tmp_path: Path, case: str) -> None:
    first = drawn(tmp_path, case, seed=5)
    assert str(repeated(tmp_path, parse(str(first)), seed=5)) == str(first)


def test_every_kind_of_line_is_read_as_it_was_written() -> None:
    steps = (
        Step("a1", "claim", {"worker": "w1", "limit": 2, "queues": ("q1", "q2"), "kinds": None}),
        Step("w1", "complete", {"lease": "t1 token 2"}),
        clock(61),
        clock(0.001),
        wall_clock(-7200),
        Step("p1", "crashes"),
        Step("w1", "dies", {"probe": "claim.written"}),
        Step("w1", "goes on"),
        Step("w1", "lines up"),
        Step("w1", "ends its call"),
    )
    script = Script("woven", "calls", "retry", steps)
    assert list(parse(str(script)).steps) == list(steps)


@pytest.mark.parametrize("text", ["", "exact", "exact keys, action retry\na1 does something"])
def test_what_is_no_script_is_refused_with_the_line(text: str) -> None:
    with pytest.raises(NotAScript):
        parse(text)


@pytest.mark.parametrize("case", ["woven keys 1", "exact", "nowhere.txt"])
def test_a_case_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path, case: str) -> None:
    with pytest.raises(InvalidInput, match="exact leases 7"):
        run(Plan(tmp_path, case=case))


def test_a_script_in_a_file_is_a_case_to_be_repeated(tmp_path: Path) -> None:
    kept = tmp_path / "script.txt"
    kept.write_text(str(drawn(tmp_path, "exact leases 1", seed=2)))
    findings = run(Plan(tmp_path, seed=2, case=str(kept)))
    assert (findings.cases, findings.violations) == (1, [])
    assert findings.figures["steps"] == 50
