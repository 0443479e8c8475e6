"""docs/schema.md describes the schema of a new store: all of it, and nothing else."""

import re
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.domain.lifecycle import LEGAL_MOVES
from tests.docs.pages import DOCS, first_cells, section, spans, table
from tests.support.foreign import foreign_rows

PAGE = DOCS / "schema.md"
KINDS = ("table", "view", "index", "trigger")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "work.db"
    Outlast(path).open().close()
    return path


@pytest.fixture(scope="module")
def real(store: Path) -> dict[str, set[str]]:
    """The names in the store by kind, SQLite's own left out."""
    rows = foreign_rows(
        store, "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite^_%' ESCAPE '^'"
    )
    return {kind: {name for found, name in rows if found == kind} for kind in KINDS}


@pytest.fixture(scope="module")
def columns(store: Path) -> dict[str, set[str]]:
    rows = foreign_rows(
        store,
        "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c"
        " WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite^_%' ESCAPE '^'",
    )
    return {owner: {name for found, name in rows if found == owner} for owner, _ in rows}


def test_every_table_and_view_has_a_section_and_no_section_is_about_nothing(
    real: dict[str, set[str]],
) -> None:
    headings = re.findall(r"^### `(\w+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(headings) == real["table"] | real["view"]


def test_every_section_lists_just_the_columns_there_are(columns: dict[str, set[str]]) -> None:
    for name, there in columns.items():
        cells = first_cells(section(PAGE, f"`{name}`"))
        listed = [word for cell in cells for word in spans(cell)]
        assert sorted(listed) == sorted(there), name


def test_every_index_is_listed_and_no_other(real: dict[str, set[str]]) -> None:
    cells = first_cells(section(PAGE, "Indexes"))[1:]
    assert sorted(cell.strip("`") for cell in cells) == sorted(real["index"])


def test_every_guard_is_listed_and_no_other(store: Path, real: dict[str, set[str]]) -> None:
    rows = foreign_rows(store, "SELECT sql FROM sqlite_schema WHERE sql LIKE '%CHECK%'")
    checks = {name for (text,) in rows for name in re.findall(r"CONSTRAINT (\w+) CHECK", text)}
    cells = first_cells(section(PAGE, "Guards against hand-written SQL"))[1:]
    listed = [spans(cell)[0] for cell in cells]
    assert sorted(listed) == sorted(checks | real["trigger"])


def test_the_moves_on_the_page_are_the_legal_moves() -> None:
    rows = table(section(PAGE, "Moves"))[1:]
    written = [(start.strip("`"), end.strip("`")) for start, end, *_ in rows]
    assert sorted(written) == sorted((start.value, end.value) for start, end in LEGAL_MOVES)
