"""The caller's own statements inside our transaction, behind an authorizer that knows its place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from outlast.errors import DatabaseError, InvalidInput, StatementRefused, StoreError
from outlast.store.records import Statement
from outlast.store.sqlite.migrate import our_names

Bound = Sequence[Any] | dict[str, Any]

_READS = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}
)
_WRITES = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})


class CallersStatements:
    """Vets what the caller may do: write to tables that are not ours, and nothing else."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._vetting = False
        self._denied: str | None = None
        self._wrote = False
        self._begun = 0
        self._ours = our_names()
        connection.set_authorizer(self._authorize)

    def run(self, statements: Sequence[Statement]) -> None:
        """Run the caller's statements to their end, in the transaction that is open."""
        for text, values in statements:
            self._run_one(text, values)

    def _run_one(self, text: str, values: Bound) -> None:
        self._denied, self._wrote, self._begun = None, False, 0
        cursor = self._connection.cursor()
        cursor.exec_trace = self._about_to_run
        try:
            with self._vetted():
                # An uncached statement is always prepared anew, so the authorizer always sees it.
                for _ in cursor.execute(text, values, can_cache=False):
                    pass
        except (apsw.BindingsError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(
                f"the values given with {text!r} do not fit it; they were {_shape(values)}"
            ) from error
        except apsw.Error as error:
            raise self._explained(text, values, error) from None

    def _about_to_run(self, cursor: apsw.Cursor, text: str, values: object) -> bool:
        """VACUUM asks no authorizer, and a second statement is one more than was given."""
        self._begun += 1
        if self._begun > 1:
            self._denied = "bring another one along"
        elif not cursor.is_readonly and not self._wrote:
            self._denied = "do what it does"
        return self._denied is None

    def _explained(self, text: str, values: Bound, error: apsw.Error) -> StoreError:
        """The engine may quote a value; then its words are left out."""
        if self._denied is not None:
            return StatementRefused(
                f"the statement {text!r} may not {self._denied} inside Outlast's transaction;"
                " use INSERT, UPDATE or DELETE on tables of your own"
            )
        if not self._connection.in_transaction:
            return StatementRefused(
                f"the statement {text!r} rolled back Outlast's transaction; nothing was stored."
                " Do not use OR ROLLBACK or RAISE(ROLLBACK)"
            )
        given = values.values() if isinstance(values, dict) else values
        quoted = any(isinstance(value, str) and value in str(error) for value in given if value)
        shown = type(error)("its own words quote a value and are left out") if quoted else error
        return DatabaseError(f"the caller's statement {text!r}", shown)

    @contextmanager
    def _vetted(self) -> Iterator[None]:
        self._vetting = True
        try:
            yield
        finally:
            self._vetting = False

    def _authorize(
        self, code: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        if not self._vetting or self._allowed(code, first, second, schema):
            return apsw.SQLITE_OK
        self._denied = _in_words(code, first)
        return apsw.SQLITE_DENY

    def _allowed(
        self, code: int, first: str | None, second: str | None, schema: str | None
    ) -> bool:
        if code == apsw.SQLITE_FUNCTION:
            return (second or "").lower() not in _FORBIDDEN_FUNCTIONS
        if code in _READS:
            return True
        if code == apsw.SQLITE_PRAGMA:
            # Full-text tables ask for this one by themselves.
            return (first or "").lower() == "data_version" and second is None
        table = (first or "").lower()
        self._wrote = (
            code in _WRITES
            and schema in (None, "main", "temp")
            and table not in self._ours
            and not table.startswith("sqlite_")
        )
        return self._wrote


def _in_words(code: int, first: str | None) -> str:
    """What was tried, for the error message."""
    if first in ("sqlite_master", "sqlite_schema", "sqlite_temp_master"):
        return "change the schema"
    if code in _WRITES:
        return f"write to {first}"
    name = str(apsw.mapping_authorizer_function[code])
    return "use " + " ".join(filter(None, [name.removeprefix("SQLITE_").replace("_", " "), first]))


def _shape(values: object) -> str:
    """The form of the caller's values, without the values."""
    if isinstance(values, dict):
        return f"named {', '.join(map(str, values))}"
    return f"{len(values)} in a row" if isinstance(values, tuple | list) else type(values).__name__
