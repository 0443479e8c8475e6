"""What healing says in the log: one warning for each loss, a line for each task."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice

from outlast.clock import Instant
from outlast.domain.budgets import recovery_limit
from outlast.domain.lifecycle import Cause, RecoveryAction, Status, Transition
from outlast.logs import IDS_LISTED, about, logger
from outlast.store.access import Access
from outlast.store.ops.claim.log import ORPHAN_FAILED
from outlast.store.ops.recovery.orphans import expired, held_by
from outlast.store.ops.settle import Moved, TaskRow
from outlast.store.presence import Judged
from outlast.store.records import RecoveryPolicy

MAX_TOLD = 1000
# A log that a person reads is no place for a million lines, nor a terminal for forty warnings.
MOST_WARNINGS = 5
MOST_LINES = 100

log = logger("outlast.heal")


def tell_what_moved(
    moved: Sequence[Moved], now: Instant, run_id: int | None = None, *, with_death: bool
) -> None:
    """Each task with its holder and how long nothing was heard of it, once it is committed.

    What went with the death of a worker is warned of once, by that.
    """
    count = sum(len(one.rows) for one in moved)
    level = logging.INFO if with_death or count > MOST_WARNINGS else logging.WARNING
    if count > MOST_LINES:
        level = logging.DEBUG
    if count > MOST_WARNINGS and not with_death:
        first = islice(chain.from_iterable(one.rows for one in moved), IDS_LISTED)
        log.warning(
            "%d orphaned tasks were moved, too many to be warned of one by one", count,
            extra=about(run_id=run_id, task_ids=[one.id for one in first]),
        )  # fmt: skip
    if not log.isEnabledFor(level):
        return
    for task, cause, transition in _singly(moved):
        age_seconds = max(0, now.utc_ms - (task.heartbeat_at or now.utc_ms)) / 1000
        word = f"{ORPHAN_FAILED} " if transition.to is Status.FAILED else ""
        limit = recovery_limit(task.max_recoveries, cause.max_recoveries)
        log.log(
            level,
            "%stask %s of worker %s, %.1f s after its last sign of life, is %s (%s): %s; %d of %d"
            " retries and %d of %d crashes in a row are used",
            word, task.id, task.worker, age_seconds, transition.to, transition.reason,
            cause.error or "it had not begun", transition.retry_count, task.max_retries,
            transition.crashes_in_row, limit,
            extra=_about(task, run_id) | about(
                status=transition.to, reason=transition.reason, attempt=transition.attempt,
                retry_count=transition.retry_count, recovery_count=transition.recovery_count,
            ),
        )  # fmt: skip


def _singly(moved: Sequence[Moved]) -> Iterator[tuple[TaskRow, Cause, Transition]]:
    for rows, cause, transition in moved:
        for task in rows:
            yield task, cause, transition


def tell_what_stays(
    access: Access, judged: Sequence[Judged], now: Instant, policy: RecoveryPolicy
) -> None:
    """For who asked for every detail: the tasks that are left to their holders, and why."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    over = access.read("telling", lambda tx: expired(tx, now, MAX_TOLD))
    orphans, ran_out = {one.seq: one for one in over}, {one.seq for one in over}
    for found in judged:
        peer = found.peer
        held = access.read("telling", partial(held_by, peer=peer, limit=MAX_TOLD))
        for task in held:
            if found.is_dead:
                orphans[task.seq] = task
            elif task.seq not in ran_out:
                log.debug(
                    "task %s stays with worker %s (pid %d): %s and its lease has not run out",
                    task.id, peer.name, peer.pid, found.judgement.because,
                    extra=_about(task, None) | about(reason=found.judgement.because),
                )  # fmt: skip
    for task in orphans.values():
        if policy.action_for(task.kind) is RecoveryAction.NONE:
            log.debug(
                "task %s of worker %s is an orphan and stays as it is: recovery leaves kind %s"
                " alone",
                task.id, task.worker, task.kind,
                extra=_about(task, None) | about(reason="skipped"),
            )  # fmt: skip


def _about(task: TaskRow, run_id: int | None) -> dict[str, object]:
    return about(
        task_id=task.id, kind=task.kind or None, worker=task.worker,
        token=task.token, run_id=run_id,
    )  # fmt: skip
