"""Who did what: an act goes on record in the transaction in which it is done."""

import json
from typing import Any, Literal

from outlast.clock import Instant
from outlast.store.sqlite.transaction import Transaction


def add_audit(
    tx: Transaction,
    actor: str,
    source: str,
    action: str,
    status: Literal["succeeded", "failed"],
    subject: str | None,
    data: dict[str, Any],
    now: Instant,
    *,
    run_id: int | None = None,
) -> None:
    """Append an act: who, by which way in, what, on what, and how it ended."""
    tx.run(
        "add_audit",
        {
            "now": now.utc_ms,
            "actor": actor,
            "source": source,
            "action": action,
            "status": status,
            "subject": subject,
            "run_id": run_id,
            "data": json.dumps(data),
        },
    )
