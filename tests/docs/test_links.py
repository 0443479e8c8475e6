"""Pages point at what exists: other pages, their sections, files and folders of the project."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, SOURCE, name_of, pages, prose, slugs, spans

PAGES = [*pages(), DOCS / "requirements.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PLACES = (ROOT, SOURCE, SOURCE.parent, SOURCE / "store" / "sqlite")


def links() -> Iterator[tuple[Path, str]]:
    """Every page with each of the links on it that stay within the project."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if not target.startswith("https://"):
                yield page, target


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = page if not path else (page.parent / path).resolve()
    return found.exists() and (not anchor or anchor in slugs(found))


def test_every_link_leads_somewhere() -> None:
    found = list(links())
    assert len(found) > 20
    assert [
        f"{name_of(page)} links to {target}"
        for page, target in found
        if not leads_somewhere(page, target)
    ] == []


def test_every_file_in_backticks_exists() -> None:
    """CONTRIBUTING.md gives made-up names of migrations as examples; they have no folder."""
    a_file = re.compile(r"[\w./*-]+/[\w.*-]+\.(py|sql|md)|(tests|docs|src|examples)/[\w/.-]*")
    named = [
        (page, word) for page in pages() for word in spans(prose(page)) if a_file.fullmatch(word)
    ]
    assert len(named) > 20
    assert [
        f"{name_of(page)}: {word}"
        for page, word in named
        if not any(list(place.glob(word)) for place in (*PLACES, page.parent))
    ] == []


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


def test_no_page_shows_a_path_of_somebodys_machine() -> None:
    assert EXAMPLES
    somebodys = re.compile(r"(?<![\w.])/(?:work|home|tmp|root|Users)/\w+")
    assert [
        f"{name_of(page)}: {path}"
        for page in [*PAGES, *EXAMPLES]
        for path in somebodys.findall(page.read_text("utf-8"))
    ] == []
