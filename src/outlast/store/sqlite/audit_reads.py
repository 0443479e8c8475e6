"""Reading the audit: acts as they were written, or each item that somebody but its holder moved."""

import json
from collections.abc import Callable
from typing import Protocol, TypeVar

from outlast.domain.acts import AuditRecord
from outlast.domain.task import utc_of
from outlast.store.sqlite.transaction import Transaction

T = TypeVar("T")


class Reading(Protocol):
    """What the questions below are asked of."""

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...


class AuditReading:
    """The record of who did what, for a store that can be read."""

    def audit(self: Reading, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """Acts behind a number, oldest first; or the newest of them."""
        return self._read(
            "reading the audit", lambda tx: _page(tx, "audit", after, limit, is_newest)
        )

    def audit_items(self: Reading, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
        """The same item by item."""
        return self._read(
            "reading the audit", lambda tx: _page(tx, "audit_items", after, limit, is_newest)
        )

    def held_ids(self: Reading, limit: int) -> list[str]:
        """Tasks that recovery put back and that wait for approval, oldest first."""
        rows = self._read(
            "reading tasks", lambda tx: tx.rows("held_recovery_ids", {"limit": limit})
        )
        return [task_id for (task_id,) in rows]


def _page(tx: Transaction, name: str, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
    statement = f"{name}_newest" if is_newest else f"{name}_after"
    rows = tx.rows(statement, {"after": after, "limit": limit})
    if is_newest:
        rows = rows[::-1]
    return [
        AuditRecord(
            number, utc_of(at), actor, source, action, status, subject, run_id, json.loads(data)
        )
        for number, at, actor, source, action, status, subject, run_id, data in rows
    ]
