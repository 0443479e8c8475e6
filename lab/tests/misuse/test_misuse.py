"""Every case of misuse, and that each kind of it is found when Outlast does not mind it."""

from pathlib import Path

import pytest

from lab.tests.planted import planted
from outlast.errors import InvalidInput
from outlast_lab.experiment import Plan
from outlast_lab.experiments.misuse import running
from outlast_lab.experiments.misuse.cases import CASES
from tests.support.children import Child

SHARES = 8


@pytest.mark.proves("INT-02", "INT-34", "INT-35")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
def test_misuse_is_refused_or_harmless(tmp_path: Path, share: int) -> None:
    names = list(CASES)[share::SHARES]
    findings = running.play(Plan(tmp_path, keep=tmp_path / "kept"), names, 1)
    assert findings.violations == []
    assert findings.cases + len(findings.notes) == len(names)
    # What a machine may forbid; everything else can be tried everywhere.
    assert {note.partition(": ")[0] for note in findings.notes} <= {"place", "stranger"}


def test_every_case_says_what_must_happen() -> None:
    assert len(CASES) >= 140
    for case in CASES.values():
        assert case.must
        assert not case.must.endswith(".")


def test_the_seed_decides_the_order_and_a_case_can_be_repeated(tmp_path: Path) -> None:
    findings = running.run(Plan(tmp_path, case="by hand: a token is raised"))
    assert (findings.cases, findings.violations, findings.notes) == (1, [], [])
    with pytest.raises(InvalidInput, match=r"no case 'nonsense' of misuse; one reads '.+: .+'"):
        running.run(Plan(tmp_path, case="nonsense"))


def test_one_case_of_each_kind_is_played_when_the_time_is_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: case for name, case in CASES.items() if name.startswith(("by hand", "journal"))}
    monkeypatch.setattr("outlast_lab.experiments.misuse.running.CASES", few)
    monkeypatch.setattr("outlast_lab.experiments.misuse.running.AT_ONCE", 1)
    findings = running.run(Plan(tmp_path, seconds=0))
    assert (findings.cases, findings.violations) == (2, [])
    assert findings.figures["cases played"] == f"2 of {len(few)}"


def test_cases_with_a_made_up_machine_say_that_they_try_the_refusal_alone() -> None:
    for name in ("a network file system, by its name", "an engine that loses commits"):
        assert "the refusal is tried, not the detection" in CASES[f"stranger: {name}"].must


@pytest.mark.parametrize(
    ("place", "find", "replace", "case"),
    [
        (
            "_is_to_be_refused",
            "if not self._guard.locks_stand():",
            "if False:",
            "second copy: open at enqueue.written",
        ),
        (
            "_check_each_file",
            "if remembered != file_id(path):",
            "if False:",
            "files: the log is removed at enqueue.committed",
        ),
        (
            "size_of",
            "if found.st_nlink > 1:",
            "if False:",
            "place: a hard link",
        ),
        (
            "LockFile.close",
            "                self._map.close()\n                os.close(self._descriptor)\n",
            "                fcntl.flock(self._descriptor, fcntl.LOCK_UN)\n",
            "fork: the child ends",
        ),
        (
            "3_guards.sql",
            "CREATE TRIGGER transitions_are_never_changed BEFORE UPDATE ON transitions\nBEGIN\n"
            "    SELECT RAISE(ABORT, 'transitions are append-only');\nEND;\n",
            "",
            "by hand: a transition is changed",
        ),
    ],
)
def test_a_planted_defect_is_found(
    tmp_path: Path, place: str, find: str, replace: str, case: str
) -> None:
    found = planted(tmp_path, place, (find, replace), "misuse", case)
    assert found["violations"] > 0


def _plays_a_case_that_hangs(folder: str) -> None:
    import time
    from pathlib import Path

    from outlast_lab.experiments.misuse import serving
    from tests.support.childside import say

    def hang() -> list[str]:
        time.sleep(600)
        return []

    vars(serving)["CASE_SECONDS"] = 0.5
    say(serving.in_a_process(Path(folder), "hangs", hang))


def test_a_case_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    with Child(_plays_a_case_that_hangs, tmp_path) as child:
        (verdict,) = child.hear_all()
        assert child.wait() == 0, child.error()
    assert "took too long" in verdict["broken"][0]
