"""What the pages name exists, and what exists is named: verbs, keywords, settings, modules."""

import ast
import builtins
import dataclasses
import inspect
import re
from types import MappingProxyType

import outlast
from outlast import AsyncLease, AsyncOutlast, Lease, Outlast, Settings
from outlast.tasks.functions import TaskOptions
from tests.docs.pages import DOCS, SOURCE, name_of, pages, prose, section, spans, table

ARCHITECTURE = DOCS / "ARCHITECTURE.md"
REFERENCE = DOCS / "reference.md"
OBJECTS = {"app": Outlast, "lease": Lease}


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def on_pages(pattern: str) -> list[tuple[str, str, str]]:
    """The two groups of a pattern wherever a page has it, after the name of the page."""
    found = [
        (name_of(page), first, second)
        for page in pages()
        for first, second in re.findall(pattern, page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 20
    return found


def test_every_verb_of_an_app_or_a_lease_on_a_page_exists() -> None:
    assert [
        f"{page}: {name}.{verb}"
        for page, name, verb in on_pages(r"\b(app|lease)\.([a-z]\w*)")
        if verb != "py" and verb not in public(OBJECTS[name])
    ] == []


def test_every_keyword_on_a_page_is_one_of_its_verb() -> None:
    """`claim(lease=…)` is a promise, too."""
    assert [
        f"{page}: {verb}({keyword}=…)"
        for page, verb, keyword in on_pages(r"\b(\w+)\([^()\n]*?\b([a-z_]+)=")
        if (accepted := _keywords(verb)) is not None and keyword not in accepted
    ] == []


def _keywords(verb: str) -> set[str] | None:
    """The keywords of a verb, of whichever object has it; None for words that are not ours."""
    if verb == "task":
        return set(TaskOptions.__annotations__)
    if verb in ("Outlast", "Settings"):
        return set(inspect.signature(getattr(outlast, verb)).parameters)
    found = [getattr(of, verb) for of in (Outlast, Lease) if verb in public(of)]
    if not any(callable(one) for one in found):
        return None
    return {name for one in found if callable(one) for name in inspect.signature(one).parameters}


def test_every_class_in_backticks_is_defined() -> None:
    a_class = re.compile(r"([A-Z][a-z]+(?:[A-Z][a-z]*)*)(?:\.\w+)?(?:\(.*\))?")
    words = [(name_of(page), word) for page in pages() for word in spans(prose(page))]
    matches = [(page, match) for page, word in words if (match := a_class.fullmatch(word))]
    assert len(matches) > 20
    defined = _classes() | set(vars(builtins))
    assert [f"{page}: {match[0]}" for page, match in matches if match[1] not in defined] == []


def _classes() -> set[str]:
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)}


def test_every_public_name_is_on_a_page() -> None:
    named = {word for page in pages() for word in spans(prose(page))}
    assert not set(outlast.__all__) - named


def test_every_verb_is_listed_for_the_outside() -> None:
    listed = set(spans(section(REFERENCE, "What the outside sees")))
    assert not public(Outlast) - listed


def test_every_verb_of_a_lease_and_of_the_objects_for_coroutines_is_listed() -> None:
    listed = set(spans(section(REFERENCE, "What the outside sees")))
    plumbing = {"claimed", "grant", "renew_soon", "session"}
    assert public(Lease) - plumbing <= listed
    for of in (AsyncOutlast, AsyncLease):
        named = {
            word.split(".")[1].partition("(")[0]
            for word in listed
            if word.startswith(f"{of.__name__}.")
        }
        assert public(of) <= listed | named


def test_the_settings_on_the_page_are_the_settings_with_their_defaults() -> None:
    rows = table(section(REFERENCE, "Settings"))[1:]
    written = {name.strip("`"): default.strip("`") for name, default, _ in rows}
    assert written == {
        field.name: _shown(getattr(Settings(), field.name))
        for field in dataclasses.fields(Settings)
    }


def _shown(value: object) -> str:
    if isinstance(value, MappingProxyType):
        return repr(dict(value))
    return f'"{value}"' if isinstance(value, str) else repr(value)


def test_the_map_shows_every_folder_and_no_other() -> None:
    shown = {row[0].strip("`") for row in table(section(ARCHITECTURE, "The map"))[1:]}
    folders = {file.parent.relative_to(SOURCE.parent).as_posix() for file in SOURCE.rglob("*.py")}
    assert shown == folders | {"outlast/store/sql", "outlast/store/schema"}


def test_the_page_of_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.read_text(encoding="utf-8").splitlines()) <= 250
