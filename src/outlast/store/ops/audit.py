"""Who did what: an act goes on record in the transaction in which it is done."""

import json
from typing import Any, NamedTuple

from outlast.clock import Instant
from outlast.store.sqlite.transaction import Transaction

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
