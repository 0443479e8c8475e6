"""A running transaction as the operations see it: named statements, bound values, rows back."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from outlast.store.sqlite.statements import sql

Row = tuple[Any, ...]
Values = dict[str, Any]


def int_array(values: Iterable[int]) -> Any:
    """Whole numbers bound as one array, so that a batch is one statement."""
    return apsw.carray(array("q", values))


def text_array(values: Sequence[str]) -> Any:
    """Texts bound as one array."""
    return apsw.carray(tuple(values))


def text_of(raw: bytes | None) -> str | None:
    """Stored text read as bytes; what is no text any more comes out as one that fails its sum."""
    return None if raw is None else raw.decode(errors="replace")


class Transaction:
    """Runs statements by the name of their file, on the connection whose transaction is open."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def rows(self, name: str, values: Values | None = None) -> list[Row]:
        """All rows of a query."""
        return self.connection.execute(sql(name), values).fetchall()

    def row(self, name: str, values: Values | None = None) -> Row | None:
        """The first row of a query."""
        return self.connection.execute(sql(name), values).fetchone()

    def value(self, name: str, values: Values | None = None) -> Any:
        """The first column of the first row, or None."""
        found = self.row(name, values)
        return None if found is None else found[0]

    def run(self, name: str, values: Values | None = None) -> int:
        """Run a statement to its end; returns how many rows it changed."""
        self.connection.execute(sql(name), values).fetchall()
        return self.connection.changes()

    def run_many(self, name: str, values: Iterable[Values] | Iterable[Row]) -> None:
        """Run a statement once for each set of values; rows are bound in the order of the text."""
        self.connection.executemany(sql(name), values)
