"""The record of recovery runs: one row for each opening to serve, and for each pass that acted."""

from typing import Any

import msgspec

from outlast import _host
from outlast.clock import Instant
from outlast.domain.budgets import attempt_limit
from outlast.domain.lifecycle import RECOVERY
from outlast.domain.recovery import RecoveredTask, RecoveryReport
from outlast.domain.task import utc, utc_of
from outlast.domain.worker import PreviousStop
from outlast.store.records import RunEnd, RunStart
from outlast.store.sqlite.events import RECOVERY_COMPLETED, RECOVERY_STARTED, add_event
from outlast.store.sqlite.transaction import Transaction

RUNS_KEPT = 1000
RECOVERY_SETTINGS = "recovery_settings"

_encode = msgspec.json.Encoder().encode
_details = msgspec.json.Decoder(RunEnd)


def begin(tx: Transaction, start: RunStart, incarnation: str, now: Instant) -> int:
    """Note that a run begins; old ones are forgotten."""
    here = _host.this_process()
    run_id: int = tx.value(
        "begin_run",
        {
            "incarnation": incarnation,
            "pid": here.pid,
            "host": here.host,
            "boot_id": here.boot_id,
            "trigger": start.trigger,
            "now": now.utc_ms,
            "previous": start.previous.value,
            "crashed_at": start.crashed_at_ms,
            "wal_bytes": start.wal_bytes,
            "wal_frames": start.wal_frames_moved,
        },
    )
    tx.run("forget_runs", {"id": run_id, "kept": RUNS_KEPT})
    if start.settings not in (None, tx.value("get_meta", {"key": RECOVERY_SETTINGS})):
        tx.run("replace_meta", {"key": RECOVERY_SETTINGS, "value": start.settings})
    data = {"trigger": start.trigger, "previous": start.previous.value, "actor": RECOVERY}
    add_event(tx, RECOVERY_STARTED, now, data, run_id=run_id, incarnation=incarnation)
    return run_id


def end(tx: Transaction, run_id: int, done: RunEnd, now: Instant) -> None:
    """Note what came of it."""
    healed = done.healed
    counts = {
        "put_back": healed.put_back,
        "failed": healed.failed,
        "held": healed.held,
        "skipped": healed.skipped,
    }
    values = {"id": run_id, "now": now.utc_ms, "details": _encode(done).decode()}
    tx.run("end_run", counts | values)
    add_event(tx, RECOVERY_COMPLETED, now, counts | {"actor": RECOVERY}, run_id=run_id)


def last(tx: Transaction, trigger: str | None) -> RecoveryReport | None:
    """The newest run that was completed, perhaps of one trigger."""
    row = tx.row("last_run", {"trigger": trigger})
    return None if row is None else _report(row)


def _report(row: tuple[Any, ...]) -> RecoveryReport:
    (
        run_id, _, pid, host, trigger, started_at, completed_at, previous, crashed_at, put_back,
        failed, held, skipped, found_running, wal_bytes, wal_frames, details,
    ) = row  # fmt: skip
    done = _details.decode(details)
    return RecoveryReport(
        run_id=run_id,
        trigger=trigger,
        mode=done.mode,
        pid=pid,
        host=host,
        started_at=utc_of(started_at),
        completed_at=utc_of(completed_at),
        previous=PreviousStop(previous),
        crashed_at=utc(crashed_at),
        tasks_running_before=found_running,
        tasks_put_back=put_back,
        tasks_failed=failed,
        tasks_held=held,
        tasks_skipped=skipped,
        wal_bytes=wal_bytes,
        wal_frames_moved=wal_frames,
        integrity=done.integrity,
        integrity_after=done.integrity_after,
        steps=done.steps,
        dead_workers=done.dead_workers,
        stale_workers=done.healed.stale_workers,
        unrecovered=done.unrecovered,
        errors=done.errors,
        locks_freed=done.healed.locks_freed,
    )


def recovered(tx: Transaction, run_id: int, after: int, limit: int) -> list[RecoveredTask]:
    """The tasks a run moved, in its order; `after` so many positions of the stream."""
    rows = tx.rows("recovered_by_run", {"run_id": run_id, "after": after, "limit": limit})
    return [
        RecoveredTask(
            task_id, kind, worker, status, reason, attempt,
            attempt_limit(max_retries, max_recoveries), recovery_count, error, utc_of(at),
        )
        for (_, task_id, kind, worker, status, reason, attempt, max_retries, recovery_count,
             max_recoveries, error, at) in rows
    ]  # fmt: skip
