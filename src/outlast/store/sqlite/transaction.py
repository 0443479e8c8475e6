"""A running transaction as the operations see it: named statements, bound values, rows back."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import apsw

from outlast.store.sqlite.statements import rows_of, sql

Row = tuple[Any, ...]

ROWS_AT_ONCE = 128
# Each is a prepared statement; what is missing to the next one is filled up with rows of nothing.
_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ROWS_AT_ONCE)


def chunks(count: int) -> Iterator[slice]:
    """Parts of so many rows at most, each of which is one statement.

    A step, and a turn of the interpreter's lock, for a hundred rows instead of one each.
    """
    for first in range(0, count, ROWS_AT_ONCE):
        yield slice(first, min(first + ROWS_AT_ONCE, count))


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
        # One for all statements: each is run to its end, and making a cursor takes longer.
        self._cursor = connection.cursor()
        # Begins, ends or marks a transaction.
        self.control: Callable[[str], object] = self._cursor.execute
        # Runs a text with its values; for a path that is measured in microseconds.
        self.execute: Callable[[str, Sequence[Any]], object] = self._cursor.execute

    @property
    def in_transaction(self) -> bool:
        """Whether it still stands; after some errors SQLite rolls all of it back."""
        return self.connection.in_transaction

    def rows(self, name: str, values: Values | None = None) -> list[Row]:
        """All rows of a query."""
        return self._cursor.execute(sql(name), values).fetchall()

    def row(self, name: str, values: Values | None = None) -> Row | None:
        """The first row of a query, which is run to its end: COMMIT refuses half-read ones."""
        found = self._cursor.execute(sql(name), values).fetchall()
        return found[0] if found else None

    def value(self, name: str, values: Values | None = None) -> Any:
        """The first column of the first row, or None."""
        found = self.row(name, values)
        return None if found is None else found[0]

    def run(self, name: str, values: Values | None = None) -> int:
        """Run a statement to its end; returns how many rows it changed."""
        self._cursor.execute(sql(name), values).fetchall()
        return self.connection.changes()

    def run_rows(self, name: str, rows: Iterable[Row]) -> None:
        """Insert or change rows, many with each statement."""
        listed = list(rows)
        for part in chunks(len(listed)):
            self.run_rows_at_once(name, listed[part])

    def run_rows_at_once(self, name: str, rows: Sequence[Row], first: Row = ()) -> None:
        """The same with one statement; `first` is bound before the rows, and stands for all.

        Its rows may be more than these: what is told of nothing must change nothing.
        """
        count = len(rows)
        size = _SIZES[bisect_left(_SIZES, count)]
        nothing = repeat(None, (size - count) * len(rows[0]))
        self._cursor.execute(rows_of(name, size), (*first, *chain.from_iterable(rows), *nothing))

    def run_many(self, name: str, values: Iterable[Values] | Iterable[Row]) -> None:
        """Run a statement once for each set of values; rows are bound in the order of the text."""
        self._cursor.executemany(sql(name), values)
