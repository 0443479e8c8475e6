"""The catalogue itself: enough defects, half of them blind, each found within its budget."""

import os

import pytest

from lab.mutants.catalogue import TESTS, Mutant, changes, mutants_in
from lab.mutants.finding import ROOT, where_test_is
from lab.mutants.places import read_source
from lab.mutants.trial import EXAMPLE_SECONDS, GRACE_SECONDS, Verdict, Workshop

MUTANTS = mutants_in()
SOURCE = ROOT / "src" / "outlast"
SOON_SECONDS = 20
OF_EACH_EXPERIMENT = 3


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """One folder for all processes of a test run, so that controls are run once."""
    folder = tmp_path_factory.getbasetemp()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is not None:
        folder = folder.parent / f"mutants-{run}"
        folder.mkdir(exist_ok=True)
    return Workshop(folder)


def trials() -> list[object]:
    """Each mutant as one test, with the time that its control, example and trial may take.

    The suite tries blind ones that are found soon by a case of their own, a few by each
    experiment; all the others would take many minutes more, and are tried by `./run lab mutants`.
    """
    soon = [one for one in MUTANTS if one.blind and one.seconds <= SOON_SECONDS]
    found_by: dict[str, list[Mutant]] = {}
    for one in soon:
        if one.found_by != TESTS and "--case" in one.arguments:
            found_by.setdefault(one.found_by, []).append(one)
    return [
        pytest.param(
            one,
            id=one.name,
            marks=pytest.mark.timeout(2 * (one.seconds + GRACE_SECONDS + EXAMPLE_SECONDS)),
        )
        for some in found_by.values()
        for one in some[:OF_EACH_EXPERIMENT]
    ]


def test_the_laboratory_has_at_least_twenty_and_half_of_them_are_blind() -> None:
    its_own = [one for one in MUTANTS if one.found_by != TESTS]
    assert len(its_own) >= 20
    assert 2 * sum(one.blind for one in its_own) >= len(its_own)


def test_the_tests_that_mutants_name_are_there() -> None:
    for one in MUTANTS:
        for name in one.arguments if one.found_by == TESTS else ():
            assert where_test_is(name).endswith(f"::{name}")


def test_each_defect_is_told_in_one_sentence() -> None:
    for one in MUTANTS:
        assert one.defect.endswith("."), one.name
        assert len(one.defect) > 60, one.name


def test_the_text_of_every_edit_is_in_its_place_exactly_once() -> None:
    source = read_source(SOURCE)
    for one in MUTANTS:
        changed = changes(source, one)
        assert changed
        assert all(text != source[path] for path, text in changed.items()), one.name


@pytest.mark.parametrize("mutant", trials())
def test_a_deliberate_defect_is_found_within_its_budget(workshop: Workshop, mutant: Mutant) -> None:
    tried = workshop.try_out(mutant)
    assert tried.verdict is Verdict.KILLED, tried.said
