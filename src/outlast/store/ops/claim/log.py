"""What a claim says in the log once it is committed: first claims, claims anew, spent orphans.

The hot path pays for none of it unless somebody listens: what is remembered of a claim under way is
what was settled or set aside on its way, and which of the tasks had been lost or had failed before.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from outlast.logs import about, logger
from outlast.store.ops.settle import TaskRow
from outlast.store.records import Claimed
from outlast.store.transaction import Transaction

CLAIM, RE_CLAIM, ORPHAN_FAILED = "CLAIM", "RE-CLAIM", "ORPHAN_FAILED"

log = logger("outlast.claim")


class Before(NamedTuple):
    """How often a task failed and was lost before, and how it came back."""

    retry_count: int
    max_retries: int
    recovery_count: int
    reason: str


class Tale:
    """What one claim has to tell; told when its transaction is committed, and not before."""

    def __init__(self) -> None:
        self.spent: list[TaskRow] = []
        self.damaged: list[str] = []
        self.again: list[int] = []
        """The rows of tasks that were lost or failed before."""
        self._before: dict[int, Before] = {}

    def learn(self, tx: Transaction) -> None:
        """Ask what had become of the tasks before, if anybody wants to know."""
        if self.again and log.isEnabledFor(logging.INFO):
            rows = tx.rows("what_came_before", {"seqs": tx.ids(self.again)})
            self._before = {seq: Before(*rest) for seq, *rest in rows}

    def tell(self, claimed: Sequence[Claimed], worker: str) -> None:
        """Say it, each line with what it is about."""
        for task_id in self.damaged:
            log.error(
                "task %s was damaged on disk and is parked as partial",
                task_id,
                extra=about(task_id=task_id),
            )
        for task in self.spent:
            _tell_of_spent(task)
        if not self._before and not log.isEnabledFor(logging.DEBUG):
            return
        for one in claimed:
            before = self._before.get(one.grant.seq)
            if before is None:
                log.debug(
                    "%s task %s (%s) by worker %s, attempt %d",
                    CLAIM, one.task_id, one.kind, worker, one.attempt, extra=_about(one, worker),
                )  # fmt: skip
            else:
                _tell_of_another_try(one, worker, before)


def _tell_of_another_try(one: Claimed, worker: str, before: Before) -> None:
    log.info(
        "%s task %s (%s) by worker %s, attempt %d: it came back by %s, retries used: %d of"
        " %d, crashes: %d",
        RE_CLAIM, one.task_id, one.kind, worker, one.attempt, before.reason, before.retry_count,
        before.max_retries, before.recovery_count,
        extra=_about(one, worker) | about(
            retry_count=before.retry_count, recovery_count=before.recovery_count,
            reason=before.reason,
        ),
    )  # fmt: skip


def _tell_of_spent(task: TaskRow) -> None:
    log.warning(
        "%s task %s (%s): it crashed %d times in a row, of %s that are taken back",
        ORPHAN_FAILED, task.id, task.kind, task.crashes_in_row, task.max_recoveries,
        extra=about(
            task_id=task.id, kind=task.kind, attempt=task.attempt,
            retry_count=task.retry_count, recovery_count=task.recovery_count,
            reason="max_retries_exceeded", status="failed",
        ),
    )  # fmt: skip


def _about(one: Claimed, worker: str) -> dict[str, object]:
    return about(
        task_id=one.task_id, kind=one.kind, queue=one.queue, attempt=one.attempt,
        token=one.grant.token, worker=worker,
    )  # fmt: skip
