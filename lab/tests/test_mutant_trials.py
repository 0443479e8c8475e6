"""The runner that tries mutants out, held to account by a package of ten lines and its defects."""

import time
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from lab.mutants import trial
from lab.mutants.catalogue import CatalogueError, Edit, Mutant, mutants_in, read_mutant
from lab.mutants.finding import control_of
from lab.mutants.run import line, main, summary, unaimed
from lab.mutants.trial import Trial, Verdict, Workshop

PACKAGE = "ANSWER = 42\n"
LABORATORY = """\
import json, os, subprocess, sys, time
from outlast import ANSWER
experiment = sys.argv[2]
arguments = sys.argv[sys.argv.index("--json") + 1 :]
for path in arguments:
    with open(path, "a") as file:
        print(os.getpid(), file=file)
if experiment == "hang":
    child = [sys.executable, "-c", "import time; time.sleep(600)"]
    with open(arguments[0], "a") as file:
        print(subprocess.Popen(child).pid, file=file)
    time.sleep(600)
if experiment == "break":
    sys.exit("the laboratory is on fire")
is_wrong = experiment == "alarm" or (experiment == "look" and ANSWER != 42)
violations = [{"what": f"the answer is\\n{ANSWER}", "case": "", "evidence": ""}] if is_wrong else []
print(json.dumps({"experiments": [{"experiment": experiment, "violations": violations}]}))
sys.exit(bool(violations))
"""
EXAMPLE = "import outlast\nassert outlast.ANSWER > 0, 'no answer'\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "source" / "outlast"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "__main__.py").write_text(LABORATORY)
    return folder


@pytest.fixture
def workshop(tmp_path: Path, package: Path) -> Workshop:
    example = tmp_path / "example.py"
    example.write_text(EXAMPLE)
    (tmp_path / "trials").mkdir()
    return Workshop(tmp_path / "trials", package, example)


def mutant(replace: str, found_by: str = "look", find: str = "42", *arguments: str) -> Mutant:
    edit = Edit("ANSWER", find, replace)
    return Mutant("wrong", "The answer is wrong.", found_by, arguments, 1, True, (edit,))


def test_a_mutant_that_its_experiment_finds_is_killed(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("43"))
    assert (tried.verdict, tried.said) == (Verdict.KILLED, "the answer is 43")
    assert summary([tried]) == "1 killed, 0 survived"
    assert "wrong" in line(tried)
    assert "the answer is 43" in line(tried)


def test_a_mutant_that_nothing_finds_survives(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("43", found_by="doze"))
    assert tried.verdict is Verdict.SURVIVED
    assert summary([tried]) == "0 killed, 1 survived"


def test_a_mutant_that_no_longer_works_does_not_count(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("-42"))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert "example.py does not pass: AssertionError: no answer" in tried.said
    assert summary([tried]) == "0 killed, 0 survived, 1 that do not count"


def test_a_mutant_killed_by_a_false_alarm_does_not_count(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("43", found_by="alarm"))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert tried.said == "alarm is not silent without a defect: the answer is 42"


def test_an_experiment_that_breaks_down_has_killed_nobody(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("43", found_by="break"))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert "the laboratory is on fire" in tried.said


WITH_TESTS = """\
import subprocess, sys
import outlast, pytest

def test_here():
    assert outlast.ANSWER == 42

def test_in_a_process_of_its_own():
    program = "import outlast, sys; sys.exit(outlast.ANSWER != 42)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0

def test_of_something_else():
    assert outlast.ANSWER

@pytest.fixture
def broken():
    assert outlast.ANSWER == 42

def test_that_cannot_begin(broken):
    pass
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    path = tmp_path / "test_answers.py"
    path.write_text(WITH_TESTS)
    return path


def found_by_test(tests: Path, name: str) -> Mutant:
    return mutant("43", "tests", "42", f"{tests}::{name}")


@pytest.mark.parametrize("name", ["test_here", "test_in_a_process_of_its_own"])
def test_a_mutant_that_makes_its_test_fail_is_killed(
    workshop: Workshop, tests: Path, name: str
) -> None:
    tried = workshop.try_out(found_by_test(tests, name))
    assert tried.verdict is Verdict.KILLED
    assert tried.said.startswith(f"{name} - ")


def test_a_mutant_whose_test_passes_survives(workshop: Workshop, tests: Path) -> None:
    tried = workshop.try_out(found_by_test(tests, "test_of_something_else"))
    assert (tried.verdict, tried.said) == (Verdict.SURVIVED, "nothing was found")


@pytest.mark.parametrize("name", ["test_that_cannot_begin", "test_that_is_not_there"])
def test_a_test_that_never_ran_has_killed_nobody(
    workshop: Workshop, tests: Path, name: str
) -> None:
    tried = workshop.try_out(found_by_test(tests, name))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert tried.said.startswith("tests itself ended with ")


def test_tests_that_fail_without_the_defect_kill_nobody(workshop: Workshop, tests: Path) -> None:
    tests.write_text(WITH_TESTS.replace("42", "44"))
    tried = workshop.try_out(found_by_test(tests, "test_here"))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert "tests is not silent without a defect: test_here" in tried.said


def test_mutants_found_by_the_tests_of_one_file_share_one_control(tests: Path) -> None:
    controls = {control_of(found_by_test(tests, name)).arguments for name in ("test_a", "test_b")}
    assert controls == {(str(tests),)}


@pytest.mark.parametrize("find", ["41", "2", "A"])
def test_a_text_that_is_not_there_exactly_once_is_an_error_of_the_catalogue(
    workshop: Workshop, package: Path, find: str
) -> None:
    (package / "__init__.py").write_text("ANSWER = 42 + len('AA') - 2\n")
    tried = workshop.try_out(mutant("43", "look", find))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert "bring its edit up to it" in tried.said


def test_a_copy_that_is_not_what_runs_does_not_count(workshop: Workshop) -> None:
    tried = workshop.try_out(mutant("43\n__file__ = 'elsewhere'"))
    assert tried.verdict is Verdict.NOT_COUNTED
    assert tried.said.startswith("its copy is not what is imported")


def test_the_source_itself_is_never_changed(workshop: Workshop, package: Path) -> None:
    workshop.try_out(mutant("43"))
    assert (package / "__init__.py").read_text() == PACKAGE


def test_mutants_with_the_same_experiment_share_one_control(
    workshop: Workshop, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    for answer in ("43", "44"):
        tried = workshop.try_out(mutant(answer, "look", "42", str(runs)))
        assert tried.verdict is Verdict.KILLED
    assert len(runs.read_text().splitlines()) == 3


def test_an_experiment_without_an_end_is_ended_with_all_that_it_started(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "GRACE_SECONDS", 2.0)
    pids = tmp_path / "pids"
    tried = workshop.try_out(mutant("43", "hang", "42", str(pids)))
    assert tried.verdict is Verdict.NOT_COUNTED, "its control has no end either"
    assert "it was not done after 3 s" in tried.said
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert not any(is_running(pid) for pid in started)


def is_running(pid: int) -> bool:
    """Whether a process is still there, once it has had a moment to be gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state in "ZX":
            return False
        time.sleep(0.01)
    return True


def test_a_mutant_that_does_not_count_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "stale.toml").write_text(
        dedent("""\
            name = "stale"
            defect = "It was there once."
            found_by = "model"
            arguments = []
            seconds = 1
            blind = true
            edits = [{ place = "Outlast", find = "no such text", replace = "" }]
        """)
    )
    told = CliRunner().invoke(main, ["--catalogue", str(tmp_path)])
    assert told.exit_code == 1
    assert told.output.rstrip().endswith("0 killed, 0 survived, 1 that do not count")
    told = CliRunner().invoke(main, ["--catalogue", str(tmp_path), "--json", "stale"])
    assert '"not_counted": 1' in told.output


def test_a_name_that_no_mutant_bears_is_refused(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["--catalogue", str(tmp_path), "nobody"])
    assert told.exit_code == 2
    assert "there is no mutant 'nobody'" in told.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = ", "cannot be read"),
        ('name = "odd"', "cannot be read"),
        ('name = "even"\nedits = []', "names itself 'even'"),
        ('name = "odd"\nedits = []', "changes nothing"),
        ('name = "odd"\nedits = []\nremark = ""', "cannot be read"),
        ('name = "odd"\nedits = [{ place = "a", find = "a", replace = "b" }]', "name them"),
    ],
)
def test_a_file_that_is_no_mutant_is_told_apart(tmp_path: Path, text: str, why: str) -> None:
    rest = '\ndefect = ""\nfound_by = "tests"\narguments = []\nseconds = 1\nblind = true'
    path = tmp_path / "odd.toml"
    path.write_text(text if "edits" not in text else text + rest)
    with pytest.raises(CatalogueError, match=why):
        read_mutant(path)
    with pytest.raises(CatalogueError):
        mutants_in(tmp_path)


def test_a_row_of_the_table_says_what_was_found() -> None:
    row = line(Trial(mutant("43"), Verdict.KILLED, "a task is lost", 1.25))
    assert row.split() == "wrong yes look 1.2 killed a task is lost".split()


def test_unaimed_an_experiment_is_told_nothing_but_its_time() -> None:
    aimed = Mutant("m", "a defect", "zombie", ("--case", "just that one"), 5.0, True, ())
    free = unaimed(aimed, 120.0)
    assert (free.name, free.arguments, free.seconds) == ("m", (), 120.0)


def test_unaimed_a_mutant_that_tests_find_is_still_found_by_its_tests() -> None:
    aimed = Mutant("m", "a defect", "tests", ("tests/test_that.py",), 5.0, True, ())
    assert unaimed(aimed, 120.0) == aimed
