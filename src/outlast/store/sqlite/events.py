"""What happened that is no task's move, written in the transaction in which it happened."""

import json
from typing import Any

from outlast.clock import Instant
from outlast.store.sqlite.transaction import Transaction

WORKER_DEAD = "worker.dead"
RECOVERY_STARTED = "recovery.started"
RECOVERY_PROGRESS = "recovery.progress"
RECOVERY_COMPLETED = "recovery.completed"


def add_event(
    tx: Transaction,
    kind: str,
    now: Instant,
    data: dict[str, Any],
    *,
    run_id: int | None = None,
    incarnation: str | None = None,
    worker: str | None = None,
) -> None:
    """Append an event; it takes the next place in the stream that it shares with transitions."""
    tx.run("begin_stream")
    tx.run(
        "add_event",
        {
            "kind": kind,
            "now": now.utc_ms,
            "data": json.dumps(data),
            "run_id": run_id,
            "incarnation": incarnation,
            "worker": worker,
        },
    )
    tx.run("raise_stream")
