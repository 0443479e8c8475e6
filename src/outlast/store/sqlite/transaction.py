"""A running transaction as the operations see it: named statements, bound values, rows back."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

import apsw

from outlast.store.sqlite.statements import rows_of, shortened, sql, union_of
from outlast.store.transaction import ROWS_AT_ONCE, Row, Values, chunks

# Each is a prepared statement; what is missing to the next one is filled up with rows of nothing.
_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ROWS_AT_ONCE)


class SqliteTransaction:
    """Runs statements by the name of their file, on the connection whose transaction is open."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        # One for all statements: each is run to its end, and making a cursor takes longer.
        self._cursor = connection.cursor()
        # Begins or ends a transaction: the writer's, no operation's.
        self.control: Callable[[str], object] = self._cursor.execute
        self.constraint_error: type[Exception] = apsw.ConstraintError

    @property
    def in_transaction(self) -> bool:
        """Whether it still stands; after some errors SQLite rolls all of it back."""
        return self.connection.in_transaction

    def is_taken(self, error: Exception) -> bool:
        """Whether such an error says that a unique value is there already."""
        return getattr(error, "extendedresult", None) == apsw.SQLITE_CONSTRAINT_UNIQUE

    def savepoint(self) -> None:
        """Set the savepoint; there is one at a time."""
        self._cursor.execute("SAVEPOINT member")

    def rollback_to_savepoint(self) -> None:
        """Undo what was done since it was set; it stays."""
        self._cursor.execute("ROLLBACK TO member")

    def release_savepoint(self) -> None:
        """Keep what was done since it was set, and forget it."""
        self._cursor.execute("RELEASE member")

    def rows(self, name: str, values: Values | None = None) -> list[Row]:
        """All rows of a query."""
        return self._cursor.execute(sql(name), values).fetchall()

    def rows_of_each(self, name: str, values: Values, members: Sequence[str]) -> list[Row]:
        """One ordered list out of several index ranges, one for each member."""
        named = {f"member{n}": member for n, member in enumerate(members)}
        return self._cursor.execute(union_of(name, len(members)), values | named).fetchall()

    def numbers(self, name: str, values: Values | None = None) -> "array[int]":
        """The first column of all rows, which are whole numbers."""
        return array("q", (row[0] for row in self._cursor.execute(sql(name), values)))

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

    def run_row(self, name: str, row: Row) -> int:
        """Insert one row, bound in the order of the text; returns how many were inserted."""
        self._cursor.execute(shortened(name), row)
        return self.connection.changes()

    def run_rows(self, name: str, rows: Iterable[Row]) -> int:
        """Insert or change rows, many with each statement; returns how many were changed."""
        listed, changed = list(rows), 0
        for part in chunks(len(listed)):
            changed += self.run_rows_at_once(name, listed[part])
        return changed

    def run_rows_at_once(self, name: str, rows: Sequence[Row], first: Row = ()) -> int:
        """The same with one statement; `first` is bound before the rows, and stands for all.

        Its rows may be more than these: what is told of nothing must change nothing.
        """
        count = len(rows)
        size = _SIZES[bisect_left(_SIZES, count)]
        nothing = repeat(None, (size - count) * len(rows[0]))
        self._cursor.execute(rows_of(name, size), (*first, *chain.from_iterable(rows), *nothing))
        return self.connection.changes()

    def run_many(self, name: str, values: Iterable[Values] | Iterable[Row]) -> None:
        """Run a statement once for each set of values; rows are bound in the order of the text."""
        self._cursor.executemany(sql(name), values)

    def ids(self, numbers: Iterable[int]) -> Any:
        """Whole numbers bound as one array, so that a batch is one statement."""
        return apsw.carray(array("q", numbers))

    def texts(self, texts: Sequence[str]) -> Any:
        """Texts bound as one array."""
        return apsw.carray(tuple(texts))
