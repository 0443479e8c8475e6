"""Append-only records of a task's progress, numbered inside the transaction that writes them."""

from collections.abc import Callable

from outlast.clock import Instant
from outlast.domain import codec
from outlast.domain.metric_marks import FENCED_WRITES
from outlast.domain.task import Checkpoint
from outlast.errors import LeaseLost
from outlast.store.access import Access
from outlast.store.commit.operation import Operation
from outlast.store.ops.rows import checkpoint_from
from outlast.store.records import Grant, NewCheckpoint
from outlast.store.transaction import Transaction

# That a step begins is no sign that anything was done.
NO_PROGRESS = "iteration_start"


def append(
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
    number, group, attempt, crashes_in_row = row
    if crashes_in_row and new.type != NO_PROGRESS:
        tx.run("note_progress", {"seq": grant.seq, "now": now.utc_ms})
    return checkpoint_from(
        (new.id, task_id, group, new.type, number, attempt, new.data, new.metadata, now.utc_ms)
    )


def trim_old(tx: Transaction, task_id: str, keep: int) -> int:
    """Drop old checkpoints, with the flag raised that tells the guard this is retention.

    The newest always stays, for numbers are counted on from it.
    """
    tx.run("set_meta", {"key": "retention_running", "value": "1"})
    removed = tx.run("trim_checkpoints", {"task_id": task_id, "keep": max(keep, 1)})
    tx.run("delete_meta", {"key": "retention_running"})
    return removed


class Checkpoints:
    """What tasks record of their progress."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def add(self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant) -> Checkpoint:
        """Append a checkpoint under a current lease."""
        return self.add_soon(grant, task_id, new, now).result()

    def add_soon(
        self, grant: Grant, task_id: str, new: NewCheckpoint, now: Instant
    ) -> Operation[Checkpoint]:
        """The future of such an appending."""

        def finish(outcome: Callable[[], Checkpoint]) -> Checkpoint:
            try:
                return outcome()
            except LeaseLost:
                self._access.counts.add(FENCED_WRITES, 1)
                raise

        return self._access.submit(
            "checkpoint", lambda tx: append(tx, grant, task_id, new, now), [task_id]
        ).then(finish)

    def trim(self, task_id: str, keep: int) -> int:
        """Drop all but the newest checkpoints, sparing what a resume needs."""
        return self._access.write("checkpoint", lambda tx: trim_old(tx, task_id, keep))

    def of_task(self, task_id: str, type: str | None, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of a task in ascending order, perhaps of one type."""
        values = {"task_id": task_id, "type": type, "limit": newest}
        rows = self._access.read(
            "reading checkpoints", lambda tx: tx.rows("checkpoints_of_task", values)
        )
        return [checkpoint_from(row) for row in reversed(rows)]

    def of_type(self, type: str, newest: int) -> list[Checkpoint]:
        """The newest checkpoints of one type across all tasks, newest first."""
        values = {"type": type, "limit": newest}
        rows = self._access.read(
            "reading checkpoints", lambda tx: tx.rows("checkpoints_of_type", values)
        )
        return [checkpoint_from(row) for row in rows]

    def counts(self, task_id: str) -> dict[str, int]:
        """How many checkpoints of each type a task has."""
        values = {"task_id": task_id}
        return dict(
            self._access.read(
                "counting checkpoints", lambda tx: tx.rows("checkpoint_counts", values)
            )
        )
