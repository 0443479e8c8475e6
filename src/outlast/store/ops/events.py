"""What happened that is no task's move, written in the transaction in which it happened."""

import json
from collections.abc import Sequence
from typing import Any

from outlast.clock import Instant
from outlast.domain.events import TAKEN
from outlast.store.sqlite.transaction import Transaction, int_array


def add_event(
    tx: Transaction,
    kind: str,
    now: Instant,
    data: dict[str, Any],
    *,
    run_id: int | None = None,
    incarnation: str | None = None,
    worker: str | None = None,
    task_id: str | None = None,
) -> None:
    """Append an event; it takes the next place in the stream that it shares with transitions."""
    if not tx.run("raise_stream"):
        tx.run("begin_stream")
        tx.run("raise_stream")
    tx.run(
        "add_event",
        {
            "kind": kind,
            "now": now.utc_ms,
            "data": json.dumps(data),
            "run_id": run_id,
            "incarnation": incarnation,
            "worker": worker,
            "task_id": task_id,
        },
    )


def add_taken(tx: Transaction, seqs: Sequence[int], now: Instant) -> None:
    """One event for each task that is about to be removed, since its moves go with it."""
    tx.run("begin_stream")
    values = {"kind": TAKEN, "seqs": int_array(seqs), "now": now.utc_ms}
    tx.run("raise_stream_by", {"count": tx.run("add_taken_events", values)})
