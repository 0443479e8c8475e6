"""What healing says in the log: a line a task while they are few, a line a batch when not."""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice

from outlast.clock import Instant
from outlast.domain.lifecycle import Cause, RecoveryAction, Status, Transition
from outlast.logs import IDS_LISTED, about, logger
from outlast.store.ops.claim_log import ORPHAN_FAILED
from outlast.store.ops.orphans import expired, held_by
from outlast.store.ops.settle import Moved, Standing
from outlast.store.records import RecoveryPolicy
from outlast.store.sqlite.presence.peers import Judged
from outlast.store.sqlite.readers import Readers

MAX_TOLD = 1000
# A log that a person reads is no place for a million lines.
MOST_WARNINGS = 100

log = logger("outlast.heal")


def tell_what_moved(moved: Sequence[Moved], now: Instant, run_id: int | None = None) -> None:
    """Each task with its holder and how long nothing was heard of it, once it is committed."""
    level, count = logging.WARNING, sum(len(one.rows) for one in moved)
    if count > MOST_WARNINGS:
        level = logging.DEBUG
        first = islice(chain.from_iterable(one.rows for one in moved), IDS_LISTED)
        log.warning(
            "%d orphaned tasks were moved, too many to be told one by one", count,
            extra=about(run_id=run_id, task_ids=[one.id for one in first]),
        )  # fmt: skip
    if not log.isEnabledFor(level):
        return
    for standing, cause, transition in _singly(moved):
        age_seconds = max(0, now.utc_ms - (standing.heartbeat_at or now.utc_ms)) / 1000
        word = f"{ORPHAN_FAILED} " if transition.to is Status.FAILED else ""
        log.log(
            level,
            "%stask %s of worker %s, %.1f s after its last sign of life, is %s (%s): %s; %d of %d"
            " retries and %d of %d crashes are used",
            word, standing.id, standing.worker, age_seconds, transition.to, transition.reason,
            cause.error or "it had not begun", transition.retry_count, standing.max_retries,
            transition.recovery_count, standing.max_recoveries,
            extra=_about(standing, run_id) | about(
                status=transition.to, reason=transition.reason, attempt=transition.attempt,
                retry_count=transition.retry_count, recovery_count=transition.recovery_count,
            ),
        )  # fmt: skip


def _singly(moved: Sequence[Moved]) -> Iterator[tuple[Standing, Cause, Transition]]:
    for rows, cause, transition in moved:
        for standing in rows:
            yield standing, cause, transition


def tell_what_stays(
    readers: Readers, judged: Sequence[Judged], now: Instant, policy: RecoveryPolicy
) -> None:
    """For who asked for every detail: the tasks that are left to their holders, and why."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    over = readers.read("telling", lambda tx: expired(tx, now, MAX_TOLD))
    orphans, ran_out = {one.seq: one for one in over}, {one.seq for one in over}
    for found in judged:
        peer = found.peer
        held = readers.read("telling", partial(held_by, peer=peer, limit=MAX_TOLD))
        for standing in held:
            if found.is_dead:
                orphans[standing.seq] = standing
            elif standing.seq not in ran_out:
                log.debug(
                    "task %s stays with worker %s (pid %d): %s and its lease has not run out",
                    standing.id, peer.name, peer.pid, found.judgement.because,
                    extra=_about(standing, None) | about(reason=found.judgement.because),
                )  # fmt: skip
    for standing in orphans.values():
        if policy.action_for(standing.kind) is RecoveryAction.NONE:
            log.debug(
                "task %s of worker %s is an orphan and stays as it is: recovery leaves kind %s"
                " alone",
                standing.id, standing.worker, standing.kind,
                extra=_about(standing, None) | about(reason="skipped"),
            )  # fmt: skip


def _about(standing: Standing, run_id: int | None) -> dict[str, object]:
    return about(
        task_id=standing.id, kind=standing.kind or None, worker=standing.worker,
        token=standing.token, run_id=run_id,
    )  # fmt: skip
