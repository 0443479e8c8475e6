"""The yardstick is honest: the same columns, the same indexes, the same rows written."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from bench import raw
from bench.load import KIND, PAYLOAD, PAYLOAD_TEXT, RESULT, RESULT_TEXT, new_ids
from bench.scenarios import putback, working
from outlast import Outlast

TABLES = ("tasks", "transitions")
Filled = dict[str, frozenset[str]]


def columns(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    query = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'
    return connection.execute(query, (table,)).fetchall()


def indexes(connection: apsw.Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL" + (
        " AND tbl_name IN ('tasks', 'transitions')"
    )
    return {name: " ".join(text.split()) for name, text in connection.execute(query)}


def last_rows(path: Path) -> Filled:
    """Which columns hold a value in the newest row of each table."""
    connection = apsw.Connection(str(path))
    found: Filled = {}
    for table in TABLES:
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1 DESC LIMIT 1")
        for row in cursor:
            names = [name for name, _ in cursor.get_description()]
            filled = (name for name, value in zip(names, row, strict=True) if value is not None)
            found[table] = frozenset(filled)
    connection.close()
    return found


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "ours.db"
    with Outlast(path) as app:
        app.enqueue(KIND, PAYLOAD)
    return path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "raw.db"
    connection = raw.make_store(path)
    raw.add_singly(connection, raw.rows(new_ids(1), KIND, PAYLOAD_TEXT))
    connection.close()
    return path


def test_columns_and_indexes_are_those_of_a_real_store(ours: Path, bare: Path) -> None:
    real, own = apsw.Connection(str(ours)), apsw.Connection(str(bare))
    for table in TABLES:
        assert columns(own, table) == columns(real, table)
    assert indexes(own) == indexes(real)
    real.close()
    own.close()


def test_commits_are_synced(bare: Path) -> None:
    connection = raw.connect(bare)
    assert connection.pragma("synchronous") == 2
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


def test_an_enqueued_task_fills_the_same_columns(ours: Path, bare: Path) -> None:
    assert last_rows(bare) == last_rows(ours)


@pytest.mark.parametrize(("result", "text"), [(None, None), (RESULT, RESULT_TEXT)])
def test_a_completed_task_and_its_log_fill_the_same_columns(
    ours: Path, bare: Path, result: Any, text: str | None
) -> None:
    with Outlast(ours) as app:
        assert working.work_off(app, result) == 1
    connection = raw.connect(bare)
    assert raw.work_off(connection, text) == 1
    moves = connection.execute("SELECT from_status, to_status FROM transitions").fetchall()
    connection.close()
    assert moves == [("pending", "running"), ("running", "completed")]
    assert last_rows(bare) == last_rows(ours)


def test_a_task_put_back_and_its_log_fill_the_same_columns(tmp_path: Path) -> None:
    folders = [tmp_path / "ours", tmp_path / "raw"]
    for folder, make in zip(folders, (putback.make_ours, putback.make_raw), strict=True):
        folder.mkdir()
        make(folder, 3)
    with Outlast(folders[0] / "work.db") as app:
        assert app.counts()["pending"] == 3
    connection = raw.connect(folders[1] / "work.db")
    assert raw.put_back(connection) == 3
    connection.close()
    assert last_rows(folders[1] / "work.db") == last_rows(folders[0] / "work.db")


def test_every_pending_task_is_added_and_worked_off(tmp_path: Path) -> None:
    connection = raw.make_store(tmp_path / "raw.db")
    raw.add_at_once(connection, raw.bundled(raw.rows(new_ids(250), KIND, PAYLOAD_TEXT)))
    assert raw.work_off(connection) == 250
    done = connection.execute("SELECT status, count(*) FROM tasks GROUP BY 1").fetchall()
    assert done == [("completed", 250)]
    connection.close()
