"""What an operation is given: named statements, bound values, rows back."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]
Values = dict[str, Any]

ROWS_AT_ONCE = 128

KEPT_OUT = (
    "a trigger of another program keeps tasks from being stored; remove it, for instance by"
    " DROP TRIGGER, or enqueue what it lets pass"
)


def chunks(count: int) -> Iterator[slice]:
    """Parts of so many rows at most, each of which is one statement.

    A step, and a turn of the GIL, for a hundred rows instead of one each.
    """
    for first in range(0, count, ROWS_AT_ONCE):
        yield slice(first, min(first + ROWS_AT_ONCE, count))


def text_of(raw: bytes | None) -> str | None:
    """Stored text read as bytes; what is no text any more comes out as one that fails its sum."""
    return None if raw is None else raw.decode(errors="replace")


class Transaction(Protocol):
    """Runs statements by the name of their file, inside a transaction that is open."""

    @property
    def in_transaction(self) -> bool:
        """Whether it still stands; after some errors all of it is rolled back."""
        ...

    @property
    def constraint_error(self) -> type[Exception]:
        """What is raised when a row breaks a constraint."""
        ...

    def is_taken(self, error: Exception) -> bool:
        """Whether such an error says that a unique value is there already."""
        ...

    def savepoint(self) -> None:
        """Set the savepoint; there is one at a time."""
        ...

    def rollback_to_savepoint(self) -> None:
        """Undo what was done since it was set; it stays."""
        ...

    def release_savepoint(self) -> None:
        """Keep what was done since it was set, and forget it."""
        ...

    def rows(self, name: str, values: Values | None = None) -> list[Row]:
        """All rows of a query."""
        ...

    def rows_of_each(self, name: str, values: Values, members: Sequence[str]) -> Iterable[Row]:
        """One ordered list out of several index ranges, one for each member."""
        ...

    def row(self, name: str, values: Values | None = None) -> Row | None:
        """The first row of a query, or None."""
        ...

    def value(self, name: str, values: Values | None = None) -> Any:
        """The first column of the first row, or None."""
        ...

    def numbers(self, name: str, values: Values | None = None) -> "array[int]":
        """The first column of all rows, which are whole numbers."""
        ...

    def run(self, name: str, values: Values | None = None) -> int:
        """Run a statement; returns how many rows it changed."""
        ...

    def run_row(self, name: str, row: Row) -> int:
        """Insert one row, bound in the order of the text; returns how many were inserted."""
        ...

    def run_rows(self, name: str, rows: Iterable[Row]) -> int:
        """Insert or change rows, many with each statement; returns how many were changed."""
        ...

    def run_rows_at_once(self, name: str, rows: Sequence[Row], first: Row = ()) -> int:
        """The same with one statement; `first` is bound before the rows, and stands for all."""
        ...

    def run_many(self, name: str, values: Iterable[Values] | Iterable[Row]) -> None:
        """Run a statement once for each set of values."""
        ...

    def ids(self, numbers: Iterable[int]) -> Any:
        """Whole numbers bound as one array, so that a batch is one statement."""
        ...

    def texts(self, texts: Sequence[str]) -> Any:
        """Texts bound as one array."""
        ...
