"""Places in a source, found by name wherever their files lie: what edits of the source refer to.

A place is a function, a class, a method (`Class.method`, or `method` alone), an assignment by the
name that it assigns to, or a file of SQL by the end of its path (`claim_tasks.sql`).
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

Source = Mapping[Path, str]


class PlaceError(Exception):
    """A place is not in the source, or what is looked for there is not there exactly once."""


class Span(NamedTuple):
    """A part of a file, by the positions of its text."""

    path: Path
    start: int
    end: int


def read_source(package: Path) -> dict[Path, str]:
    """The texts of a package by their paths from it."""
    return {
        path.relative_to(package): path.read_text(encoding="utf-8")
        for kind in ("*.py", "*.sql")
        for path in sorted(package.rglob(kind))
    }


def replaced(source: Source, place: str, find: str, replace: str) -> tuple[Path, str]:
    """The file of a place and its new text; what is found must stand there exactly once."""
    spans = list(spans_of(source, place))
    if not spans:
        raise PlaceError(f"{place} is not in the source any more")
    # Two functions may share a name, as long as the text tells them apart.
    count = sum(source[path].count(find, start, end) for path, start, end in spans)
    if count != 1:
        raise PlaceError(f"the text looked for in {place} is there {count} times and not once")
    path, start, _ = next(one for one in spans if find in source[one.path][one.start : one.end])
    text = source[path]
    at = text.index(find, start)
    return path, text[:at] + replace + text[at + len(find) :]


def spans_of(source: Source, place: str) -> Iterator[Span]:
    """Wherever a place of this name is."""
    for path, text in source.items():
        if path.suffix != ".py":
            if f"/{path.as_posix()}".endswith(f"/{place}"):
                yield Span(path, 0, len(text))
        elif place.rpartition(".")[2] in text:
            for name, start, end in _definitions(text):
                if name.endswith(f".{place}"):
                    yield Span(path, start, end)


# A catalogue looks into the same texts a thousand times.
@cache
def _definitions(text: str) -> list[tuple[str, int, int]]:
    """What a module and its classes define: qualified name, beginning and end."""
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    found = []
    for name, node in _named(ast.parse(text).body):
        first = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
        found.append((name, starts[first - 1], starts[node.end_lineno or first]))
    return found


def _named(body: list[ast.stmt], outer: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        for name in _names(node):
            yield f"{outer}.{name}", node
        if isinstance(node, ast.ClassDef):
            yield from _named(node.body, f"{outer}.{node.name}")


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [one.id for one in targets if isinstance(one, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []
