"""The .sql files: one operation each, all of them used, all of them sound."""

import ast
import re
from pathlib import Path

import apsw.ext

from outlast import store
from outlast.store.sqlite.migrate import our_names
from outlast.store.sqlite.statements import FOLDERS, sql, union_of
from outlast.store.sqlite.wal import MODES
from tests.store.hand import Hand

PACKAGE = Path(store.__file__).parent
FILES = sorted(file for folder in FOLDERS for file in folder.glob("*/*.sql"))
NAMES = [file.stem for file in FILES]

# What PostgreSQL does not parse, or has no function for; a statement with it is SQLite's own.
ONLY_SQLITE = re.compile(
    r"\bPRAGMA\b|\bsqlite_|\bINDEXED BY\b|\bcarray\b|\bjson_each\b|\biif\b|\bGLOB\b|\bprintf\b"
    r"|\bINSERT OR\b|\blast_insert_rowid\b|\bCROSS JOIN [\w ]+ ON\b|\bON CONFLICT DO UPDATE\b"
    r"|\bLIMIT -1\b|\?\d*[,\s)]"
)


def words_in_the_code() -> set[str]:
    return {
        node.value
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_statement_is_used() -> None:
    used = words_in_the_code() | {f"flush_{mode}" for mode in MODES}
    assert [name for name in NAMES if name not in used] == []
    assert len(NAMES) > 50


def test_a_name_is_one_file_and_every_file_below_the_folders_is_read() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert sorted((PACKAGE / "sql").rglob("*.sql")) == FILES
    assert all(sql(file.stem) == file.read_text(encoding="utf-8") for file in FILES)


def test_common_statements_have_no_words_that_only_sqlite_understands() -> None:
    texts = {file: " ".join(sql(file.stem).split()) for file in FILES}
    marked = {file for file, text in texts.items() if ONLY_SQLITE.search(text)}
    assert {file.stem for file in marked if "common" in file.parts} == set()
    assert len(marked) > 50


def test_every_statement_is_one_that_the_engine_understands(blank: Hand) -> None:
    for name in NAMES:
        text = union_of(name, 2) if ":member" in sql(name) else sql(name)
        found = apsw.ext.query_info(blank.connection, text)
        assert found.query_remaining is None, f"{name} is more than one operation"
        is_bound_by_place = "-- one of these for each row" in text
        assert is_bound_by_place or all(found.bindings_names), f"{name} binds without a name"


def test_every_table_and_view_is_known_as_ours(blank: Hand) -> None:
    """What the authorizer keeps callers away from is this list."""
    made = blank.rows("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    assert {name for (name,) in made} == our_names()
