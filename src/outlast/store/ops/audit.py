"""Who did what: an act goes on record in the transaction in which it is done."""

import json
from typing import Any, NamedTuple

from outlast.clock import Instant
from outlast.domain.operator_acts import AuditRecord
from outlast.domain.task import utc_of
from outlast.store.transaction import Transaction

CRASH_RECOVERY, SELF_HEALING = "crash_recovery", "self_healing"


class Act(NamedTuple):
    """Who did what, by which way in, on what, and how it ended."""

    actor: str
    source: str
    action: str
    subject: str | None
    data: dict[str, Any]
    is_done: bool = True
    run_id: int | None = None


def add_audit(tx: Transaction, act: Act, now: Instant) -> None:
    """Append an act."""
    tx.run(
        "add_audit",
        {
            "now": now.utc_ms,
            "actor": act.actor,
            "source": act.source,
            "action": act.action,
            "status": "succeeded" if act.is_done else "failed",
            "subject": act.subject,
            "run_id": act.run_id,
            "data": json.dumps(act.data),
        },
    )


class Statements(NamedTuple):
    """How a list is read on, and how from its end."""

    after: str
    newest: str


_ACTS = Statements("audit_after", "audit_newest")
_ITEMS = Statements("audit_items_after", "audit_items_newest")


def acts(tx: Transaction, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
    """Acts behind a number, oldest first; or the newest of them."""
    return _page(tx, _ACTS, after, limit, is_newest)


def items(tx: Transaction, after: int, limit: int, is_newest: bool) -> list[AuditRecord]:
    """The same item by item."""
    return _page(tx, _ITEMS, after, limit, is_newest)


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
