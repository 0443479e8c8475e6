"""The table in docs/requirements.md, and the `proves` markers that its State column repeats.

Run as a program, it lists the rows whose state is out of date; with --write it corrects them.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "requirements.md"
TESTS = (ROOT / "tests", ROOT / "lab" / "tests")

STATES = ("proven", "open")

# The first cell is an id, the last one the state; cells between them are prose and may hold `\|`.
_ROW = re.compile(
    r"^\|\s*(?P<id>[A-Z]+-\d+)\s*\|(?P<between>.*)(?<!\\)\|\s*(?P<state>[^|]*?)\s*\|\s*$"
)


class Row(NamedTuple):
    id: str
    state: str


class Marker(NamedTuple):
    id: str
    place: str
    """File and line, as editors and terminals understand it."""


def parse_rows(text: str) -> list[Row]:
    matches = (_ROW.match(line) for line in text.splitlines())
    return [Row(match["id"], match["state"]) for match in matches if match]


def find_markers(*folders: Path) -> list[Marker]:
    """Every id in a call of `proves` anywhere in the Python files below the folders."""
    return [
        marker
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        for marker in _markers_in(file, file.relative_to(folder.parent).as_posix())
    ]


def _markers_in(file: Path, name: str) -> Iterator[Marker]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), filename=name)):
        if not (isinstance(node, ast.Call) and _called_name(node) == "proves"):
            continue
        place = f"{name}:{node.lineno}"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise ValueError(f"{place}: proves() takes literal ids, so that they can be found")
            yield Marker(argument.value, place)


def _called_name(call: ast.Call) -> str | None:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None


def due_states(rows: Iterable[Row], markers: Iterable[Marker]) -> dict[str, str]:
    """What the markers say about each row."""
    proven = {marker.id for marker in markers}
    return {row.id: "proven" if row.id in proven else "open" for row in rows}


def with_states(text: str, states: Mapping[str, str]) -> str:
    """The same text with these states in the rows of these ids."""
    return "".join(_with_state(line, states) for line in text.splitlines(keepends=True))


def _with_state(line: str, states: Mapping[str, str]) -> str:
    match = _ROW.match(line)
    if not match or match["id"] not in states:
        return line
    start, end = match.span("state")
    return line[:start] + states[match["id"]] + line[end:]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--write"]):
        print("usage: requirements_table.py [--write]", file=sys.stderr)
        return 2
    text = TABLE.read_text(encoding="utf-8")
    rows = parse_rows(text)
    due = due_states(rows, find_markers(*TESTS))
    stale = [row for row in rows if row.state != due[row.id]]
    for row in stale:
        print(f"{row.id}: {row.state or 'no state'} -> {due[row.id]}")
    if arguments:
        TABLE.write_text(with_states(text, due), encoding="utf-8")
    return 1 if stale and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
