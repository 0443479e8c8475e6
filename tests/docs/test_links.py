"""Pages point at what exists: other pages, their sections, files and folders of the project."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, SOURCE, name_of, pages, prose, slugs, spans

PAGES = [*pages(), DOCS / "requirements.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PLACES = (ROOT, SOURCE, SOURCE.parent, SOURCE / "store" / "sqlite")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = page if not path else (page.parent / path).resolve()
        assert found.exists(), f"{name_of(page)} links to {target}"
        assert not anchor or anchor in slugs(found), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_file_in_backticks_exists(page: Path) -> None:
    """CONTRIBUTING.md gives made-up names of migrations as examples; they have no folder."""
    for word in spans(prose(page)):
        if re.fullmatch(
            r"[\w./*-]+/[\w.*-]+\.(py|sql|md)|(tests|docs|src|examples)/[\w/.-]*", word
        ):
            places = (*PLACES, page.parent)
            assert any(list(place.glob(word)) for place in places), f"{name_of(page)}: {word}"


def test_every_folder_of_tests_that_a_promise_names_has_tests() -> None:
    named = {word for word in spans(prose(DOCS / "guarantees.md")) if word.startswith("tests/")}
    assert named
    assert not [folder for folder in named if not list((ROOT / folder).rglob("test_*.py"))]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = re.findall(r"\]\(([^)#\s]+\.md)", prose(page))
        linked = {(page.parent / target).resolve() for target in targets if "://" not in target}
        waiting += linked - reached
    assert not [name_of(page) for page in PAGES if page not in reached]


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name_of)
def test_no_page_shows_a_path_of_somebodys_machine(page: Path) -> None:
    assert not re.findall(r"(?<![\w.])/(?:work|home|tmp|root|Users)/\w+", page.read_text("utf-8"))
