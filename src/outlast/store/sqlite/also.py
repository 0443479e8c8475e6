"""The caller's own statements inside our transaction, behind an authorizer that knows its place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import apsw

from outlast.errors import DatabaseError, InvalidInput, StatementRefused
from outlast.store.base import Statement
from outlast.store.sqlite.migrate import our_names

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
        self._ours = our_names()
        connection.set_authorizer(self._authorize)

    def run(self, statements: Sequence[Statement]) -> None:
        """Run the caller's statements to their end, in the transaction that is open."""
        for text, values in statements:
            self._run_one(text, values)

    def _run_one(self, text: str, values: object) -> None:
        self._denied = None
        try:
            with self._vetted():
                # An uncached statement is always prepared anew, so the authorizer always sees it.
                cursor = self._connection.execute(text, values, can_cache=False)  # type: ignore[arg-type]
                for _ in cursor:
                    pass
        except apsw.AuthError as error:
            raise StatementRefused(
                f"the statement {text!r} may not {self._denied or 'do that'} inside Outlast's"
                " transaction; use INSERT, UPDATE or DELETE on tables of your own"
            ) from error
        except apsw.Error as error:
            raise DatabaseError(f"the caller's statement {text!r}", error) from error
        except (KeyError, TypeError, UnicodeEncodeError) as error:
            raise InvalidInput(
                f"the values given with {text!r} do not fit it; they were {_shape(values)}"
            ) from error
        if not self._connection.in_transaction:
            raise StatementRefused(
                f"the statement {text!r} rolled back Outlast's transaction; nothing was stored."
                " Do not use OR ROLLBACK or RAISE(ROLLBACK)"
            )

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
        return (
            code in _WRITES
            and schema in (None, "main", "temp")
            and table not in self._ours
            and not table.startswith("sqlite_")
        )


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
