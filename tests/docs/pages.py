"""The pages people read, and the parts of a page that can be held against the code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "outlast"
DOCS = ROOT / "docs"
RECORDS = DOCS / "adr"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_WORDS_THAT_SAY_SOMETHING = 15


class Block(NamedTuple):
    """A fenced block of code."""

    page: str
    line: int
    text: str


def pages() -> list[Path]:
    """Every page; requirements.md is left out, as it speaks of what does not exist yet."""
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    found += [ROOT / "lab" / "README.md", ROOT / "lab" / "mutants" / "README.md"]
    found += sorted(path for path in DOCS.rglob("*.md") if path.name != "requirements.md")
    return found


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match[1] == language:
            yield Block(name_of(page), text.count("\n", 0, match.start()) + 2, match[2])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def slugs(page: Path) -> set[str]:
    """The anchors of a page, as they are made of its headings."""
    return {slug(title) for _, title in _HEADING.findall(prose(page))}


def slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(page: Path, title: str) -> str:
    """The text under a heading, down to the next one of its rank; it has to say something."""
    text = page.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    starts = [n for n, match in enumerate(headings) if match[2] == title]
    assert starts, f"{page.name} has no section {title!r}"
    start = headings[starts[0]]
    ends = (m.start() for m in headings[starts[0] + 1 :] if len(m[1]) <= len(start[1]))
    body = text[start.end() : next(ends, len(text))]
    assert len(body.split()) >= _WORDS_THAT_SAY_SOMETHING, f"{title!r} of {page.name} says nothing"
    return body


def first_cells(text: str) -> list[str]:
    """The first cell of each table row, without headings and rulers."""
    rows = re.findall(r"^\|([^|]*)\|", text, re.MULTILINE)
    return [cell.strip() for cell in rows if cell.strip() and not set(cell.strip()) <= {"-"}]


def table(text: str) -> list[list[str]]:
    """The cells of all table rows, without rulers."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if not set("".join(row)) <= {"-"}]
