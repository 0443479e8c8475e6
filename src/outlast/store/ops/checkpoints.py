"""Append-only records of a task's progress, numbered inside the transaction that writes them."""

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.task import Checkpoint
from outlast.errors import LeaseLost
from outlast.store.ops.rows import checkpoint_from
from outlast.store.records import Grant, NewCheckpoint
from outlast.store.sqlite.transaction import Transaction


def add(
    tx: Transaction, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
) -> Checkpoint:
    """Append under a current lease; a stale one writes nothing."""
    values = {
        "id": new.id,
        "type": new.type,
        "data": new.data,
        "data_sum": codec.snapshot_sum(new.data),
        "metadata": new.metadata,
        "now": now.utc_ms,
    }
    row = tx.row("add_checkpoint", values | grant._asdict())
    if row is None:
        raise LeaseLost(task_id)
    number, group, attempt = row
    return checkpoint_from(
        (new.id, task_id, group, new.type, number, attempt, new.data, new.metadata, now.utc_ms)
    )


def trim(tx: Transaction, task_id: str, keep: int) -> int:
    """Drop old checkpoints, with the flag raised that tells the guard this is retention.

    The newest always stays, for numbers are counted on from it.
    """
    tx.run("set_meta", {"key": "retention_running", "value": "1"})
    removed = tx.run("trim_checkpoints", {"task_id": task_id, "keep": max(keep, 1)})
    tx.run("delete_meta", {"key": "retention_running"})
    return removed
