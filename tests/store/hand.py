"""The database as somebody with a SQL prompt sees it.

Through apsw, because inside this process a second copy of SQLite would drop the store's locks.
"""

from pathlib import Path
from typing import Any

import apsw

from outlast import Outlast
from outlast.store.sqlite.engine import ServingEngine
from outlast.store.store import Store

Refused = apsw.ConstraintError


class Hand:
    """Hand-written SQL on a connection of its own."""

    def __init__(self, path: Path | str) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.set_busy_timeout(30_000)
        self.connection.pragma("foreign_keys", "ON")

    def rows(self, text: str, *values: Any) -> list[Any]:
        return self.connection.execute(text, values).fetchall()

    def row(self, text: str, *values: Any) -> Any:
        (found,) = self.rows(text, *values)
        return found

    def value(self, text: str, *values: Any) -> Any:
        (found,) = self.row(text, *values)
        return found

    def run(self, text: str, *values: Any) -> int:
        """Run it to the end; how many rows it changed."""
        self.connection.execute(text, values).fetchall()
        return self.connection.changes()

    def task(self, task_id: str) -> dict[str, Any]:
        """The whole row of a task, by column."""
        return self.records("SELECT * FROM tasks WHERE id = ?", task_id)[0]

    def records(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)
        names = [name for name, *_ in cursor.get_description()] if cursor.has_vdbe else []
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def columns(self, table: str) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table)]

    def close(self) -> None:
        self.connection.close()


def store_of(app: Outlast) -> Store:
    """The store behind an Outlast, opened to serve."""
    return app._handle.serve().store


def engine_of(app: Outlast) -> ServingEngine:
    """The engine on SQLite below that store, for what no engine promises."""
    engine = store_of(app).engine
    assert isinstance(engine, ServingEngine)
    return engine


def everything(hand: Hand) -> dict[str, list[Any]]:
    tables = hand.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name: hand.rows(f'SELECT * FROM "{name}"') for (name,) in tables}
