"""The .sql files: one operation each, all of them used, all of them sound."""

import ast
from pathlib import Path

import apsw.ext
import pytest

from outlast.store import sqlite
from outlast.store.sqlite.migrate import our_names
from outlast.store.sqlite.statements import sql, union_of
from outlast.store.sqlite.wal import MODES
from tests.store.hand import Hand

PACKAGE = Path(sqlite.__file__).parent
NAMES = sorted(file.stem for file in (PACKAGE / "sql").glob("*.sql"))


def words_in_the_code() -> set[str]:
    return {
        node.value
        for file in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_statement_is_used() -> None:
    used = words_in_the_code() | {f"flush_{mode}" for mode in MODES}
    assert [name for name in NAMES if name not in used] == []
    assert len(NAMES) > 50


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_one_that_the_engine_understands(blank: Hand, name: str) -> None:
    text = union_of(name, 2) if ":member" in sql(name) else sql(name)
    found = apsw.ext.query_info(blank.connection, text)
    assert found.query_remaining is None, "one operation each"
    is_bound_by_place = "-- one of these for each row" in text
    assert is_bound_by_place or all(found.bindings_names), "values are bound by name"


def test_every_table_and_view_is_known_as_ours(blank: Hand) -> None:
    """What the authorizer keeps callers away from is this list."""
    made = blank.rows("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    assert {name for (name,) in made} == our_names()
