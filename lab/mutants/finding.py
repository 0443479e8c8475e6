"""What looks for a mutant's defect in a changed copy: an experiment of the laboratory, or tests."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lab.mutants.catalogue import TESTS, CatalogueError, Mutant

ROOT = Path(__file__).parents[2]
FOLDERS_OF_TESTS = (ROOT / "tests", ROOT / "lab" / "tests")
SEED = "1"
WORDS_KEPT = 200
_FAILED = "FAILED "
_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
# Instead of what the whole suite is run with, so that one test starts in a third of the time.
_ONLY_WHAT_FEW_TESTS_NEED = (
    "-o", "addopts=--import-mode=importlib --strict-markers",
    "-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "no:cacheprovider",
)  # fmt: skip


class Ended(msgspec.Struct, frozen=True):
    """How a process ended; the code is None if its time was up."""

    code: int | None
    output: str
    errors: str
    seconds: float

    @property
    def last_words(self) -> str:
        """The end of what it said, in one line."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return lines[-1][-WORDS_KEPT:] if lines else "nothing was said"


def command_of(mutant: Mutant) -> list[str]:
    """What Python is to be started with."""
    if mutant.found_by == TESTS:
        command = ["-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        command += ["-q", "-x", "--tb", "no", "-r", "f", *_ONLY_WHAT_FEW_TESTS_NEED]
        return command + [where_test_is(argument) for argument in mutant.arguments]
    command = ["-m", "outlast", "lab", mutant.found_by, "--seed", SEED]
    return [*command, "--seconds", f"{mutant.seconds:g}", "--json", *mutant.arguments]


def control_of(mutant: Mutant) -> Mutant:
    """What must find nothing without the defect: of tests whole files, which many mutants share."""
    if mutant.found_by != TESTS:
        return mutant
    nodes = [where_test_is(argument) for argument in mutant.arguments]
    files = tuple(dict.fromkeys(one.partition("::")[0] for one in nodes))
    return msgspec.structs.replace(mutant, arguments=files)


def where_test_is(argument: str) -> str:
    """What pytest calls a test that is given by its name; a path stays what it is."""
    if "/" in argument:
        return argument
    paths = _tests().get(argument.partition("[")[0], ())
    if len(paths) != 1:
        raise CatalogueError(f"there are {len(paths)} tests {argument} and not one; name another")
    return f"{paths[0]}::{argument}"


@cache
def _tests() -> Mapping[str, list[Path]]:
    """The files of all tests, by the names of these."""
    found: dict[str, list[Path]] = {}
    for folder in FOLDERS_OF_TESTS:
        for path in sorted(folder.rglob("test_*.py")):
            for name in _TEST.findall(path.read_text(encoding="utf-8")):
                found.setdefault(name, []).append(path)
    return found


def found_in(mutant: Mutant, ended: Ended) -> list[str] | None:
    """The violations that were told of, a line each; None when nothing was told that can be read.

    Of tests those count that failed: one that could not even begin has found nothing.
    """
    if mutant.found_by == TESTS:
        lines = [line for line in ended.output.splitlines() if line.startswith(_FAILED)]
        told = [line.removeprefix(_FAILED).rpartition("::")[2] for line in lines]
        return told if ended.code == 0 or told else None
    try:
        document = msgspec.json.decode(ended.output)
        violations = [one for ran in document["experiments"] for one in ran["violations"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return [_in_one_line(one) for one in violations]


def _in_one_line(violation: dict[str, Any]) -> str:
    return " ".join(str(violation.get("what", violation)).split())
