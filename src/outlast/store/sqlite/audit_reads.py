"""Reading the audit: acts as they were written, or each item that somebody but its holder moved."""

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from outlast.domain.operator_acts import AuditRecord
from outlast.domain.task import utc_of
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")


class Statements(NamedTuple):
    """How a list is read on, and how from its end."""

    after: str
    newest: str


_ACTS = Statements("audit_after", "audit_newest")
_ITEMS = Statements("audit_items_after", "audit_items_newest")


class Reading(Protocol):
    """What the questions below are asked of."""

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...


class AuditReading:
    """The record of who did what, for a store that can be read."""

    def audit(self: Reading, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """Acts behind a number, oldest first; or the newest of them."""
        return self._read("reading the audit", lambda tx: _page(tx, _ACTS, after, limit, is_newest))

    def audit_items(self: Reading, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """The same item by item."""
        return self._read(
            "reading the audit", lambda tx: _page(tx, _ITEMS, after, limit, is_newest)
        )

    def held_ids(self: Reading, limit: int) -> list[str]:
        """Tasks that recovery put back and that wait for approval, oldest first."""
        rows = self._read(
            "reading tasks", lambda tx: tx.rows("held_recovery_ids", {"limit": limit})
        )
        return [task_id for (task_id,) in rows]


def _page(
    tx: Transaction, statements: Statements, after: int, limit: int, is_newest: bool
) -> list[AuditRecord]:
    rows = tx.rows(
        statements.newest if is_newest else statements.after, {"after": after, "limit": limit}
    )
    if is_newest:
        rows = rows[::-1]
    return [
        AuditRecord(
            number, utc_of(at), actor, source, action, status, subject, run_id, json.loads(data)
        )
        for number, at, actor, source, action, status, subject, run_id, data in rows
    ]
