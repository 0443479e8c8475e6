"""The record of recovery runs: one row for each opening to serve, and for each pass that acted."""

from typing import Any, NamedTuple

import msgspec

from outlast.clock import Instant
from outlast.domain.events import RECOVERY_COMPLETED, RECOVERY_STARTED
from outlast.domain.lifecycle import RECOVERY
from outlast.domain.recovery import RecoveredTask, RecoveryReport
from outlast.domain.task import stamp_of, utc, utc_of
from outlast.domain.worker import PreviousStop
from outlast.errors import StoreBusy
from outlast.store.ops.audit import CRASH_RECOVERY, Act, add_audit
from outlast.store.ops.events import add_event
from outlast.store.ops.recovery.loss_causes import last_sign
from outlast.store.presence import Identity
from outlast.store.records import SESSIONS_FROM, RunEnd, RunStart
from outlast.store.transaction import Row, Transaction

RUNS_KEPT = 1000
TELLING_RUNS_KEPT = 100
RECOVERY_SETTINGS = "recovery_settings"

_encode = msgspec.json.Encoder().encode
_details = msgspec.json.Decoder(RunEnd)


class Beginning(NamedTuple):
    """A run that is about to be put on record, by the first transaction that it makes."""

    run_id: int
    start: RunStart
    incarnation: str
    now: Instant
    is_session: bool = True
    """Whether the process serves from now on; a later run of its own is over when it ends."""
    earlier: int | None = None
    """An opening of the same session that was broken off."""
    here: Identity = Identity("", 0, "")
    """The process that runs it."""


def next_id(tx: Transaction) -> int:
    """The number of the next run; whoever asks has the turn to recover, so it stays that."""
    return int(tx.value("next_run"))


def begin(tx: Transaction, beginning: Beginning) -> None:
    """Note that a run begins; old ones are forgotten, those with something to tell much later."""
    run_id, start, incarnation, now, is_session, _, here = beginning
    is_new = tx.run(
        "begin_run",
        {
            "id": run_id,
            "incarnation": incarnation,
            "pid": here.pid,
            "host": here.host,
            "boot_id": here.boot_id,
            "trigger": start.trigger,
            "now": now.utc_ms,
            "previous": start.previous.value,
            "session_ended_at": None if is_session else now.utc_ms,
            "crashed_at": _last_seen(tx, start),
            "wal_bytes": start.wal_bytes,
            "wal_frames": start.wal_frames_moved,
        },
    )
    if not is_new:
        _refuse_anothers(tx, beginning)
        return
    _see_to_those_before(tx, beginning)
    if start.settings not in (None, tx.value("get_meta", {"key": RECOVERY_SETTINGS})):
        tx.run("replace_meta", {"key": RECOVERY_SETTINGS, "value": start.settings})
    data = {"trigger": start.trigger, "previous": start.previous.value, "actor": RECOVERY}
    add_event(tx, RECOVERY_STARTED, now, data, run_id=run_id, incarnation=incarnation)


def _see_to_those_before(tx: Transaction, beginning: Beginning) -> None:
    run_id, earlier = beginning.run_id, beginning.earlier
    if tx.value("get_meta", {"key": SESSIONS_FROM}) is None:
        tx.run("replace_meta", {"key": SESSIONS_FROM, "value": str(run_id)})
    if earlier is not None:
        own = {"id": earlier, "incarnation": beginning.incarnation}
        tx.run("end_session", own | {"now": beginning.now.utc_ms})
    if run_id > RUNS_KEPT:
        kept = {"kept": RUNS_KEPT, "telling_kept": TELLING_RUNS_KEPT, "key": SESSIONS_FROM}
        tx.run("forget_runs", {"id": run_id} | kept)


def _refuse_anothers(tx: Transaction, beginning: Beginning) -> None:
    """Only where the lock on recovery failed us can the number be somebody else's by now."""
    begun_by = tx.value("run_incarnation", {"id": beginning.run_id})
    if begun_by != beginning.incarnation:
        raise StoreBusy("another process has begun to recover this store; try again later")


def _last_seen(tx: Transaction, start: RunStart) -> int | None:
    """When those who stopped badly were last known to live: at their start, or by what they did."""
    signs = (start.crashed_at_ms, last_sign(tx, start.crashed))
    return max((at for at in signs if at is not None), default=None)


def end(tx: Transaction, run_id: int, done: RunEnd, now: Instant) -> Row:
    """Note what came of it; once only, though one who heard no answer may say it again.

    Returns the row, to be read as a report once it is committed.
    """
    healed = done.healed
    counts = {
        "put_back": healed.put_back,
        "failed": healed.failed,
        "held": healed.held,
        "skipped": healed.skipped,
    }
    values = {
        "id": run_id, "now": now.utc_ms, "details": _encode(done).decode(),
        "has_findings": int(done.has_findings),
    }  # fmt: skip
    row = tx.row("end_run", counts | values)
    if row is None:
        ended = tx.row("run_by_id", {"id": run_id})
        assert ended is not None, "a run is forgotten only by a later one"
        return ended
    add_event(tx, RECOVERY_COMPLETED, now, counts | {"actor": RECOVERY}, run_id=run_id)
    if done.has_findings:
        _put_on_record(tx, row, done, counts, now)
    return row


def _put_on_record(
    tx: Transaction, row: Row, done: RunEnd, counts: dict[str, int], now: Instant
) -> None:
    """A start that found nothing is no recovery from a crash, and leaves no act to account for."""
    run_id, _, _, _, _, started_at, _, _, crashed_at, *_ = row
    data = counts | {
        "dead_workers": len(done.dead_workers),
        "duration_seconds": max(0, now.utc_ms - started_at) / 1000,
        "previous_crash_at": None if crashed_at is None else stamp_of(crashed_at),
        "errors": len(done.errors) + len(done.unrecovered),
    }
    act = Act(
        RECOVERY, CRASH_RECOVERY, "recover_from_crash", f"run {run_id}", data,
        is_done=not data["errors"], run_id=run_id,
    )  # fmt: skip
    add_audit(tx, act, now)


def last(tx: Transaction, trigger: str | None) -> RecoveryReport | None:
    """The newest run that was completed, perhaps of one trigger."""
    row = tx.row("last_run", {"trigger": trigger})
    return None if row is None else report_of(row)


def telling(tx: Transaction, run_id: int | None) -> tuple[RecoveryReport, int] | None:
    """A run, or the newest that has something to tell, or the newest; how many empty ones since."""
    if run_id is not None:
        row = tx.row("run_by_id", {"id": run_id})
    else:
        row = tx.row("last_telling_run") or tx.row("last_run", {"trigger": None})
    return None if row is None else (report_of(row), int(tx.value("runs_since", {"id": row[0]})))


def report_of(row: Row) -> RecoveryReport:
    """A run that has ended, as its row tells it."""
    (
        run_id, _, pid, host, trigger, started_at, completed_at, previous, crashed_at, put_back,
        failed, held, skipped, found_running, wal_bytes, wal_frames, details,
    ) = row  # fmt: skip
    return RecoveryReport(
        run_id=run_id,
        trigger=trigger,
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
        **_told_at_its_end(_details.decode(details)),
    )


def _told_at_its_end(done: RunEnd) -> dict[str, Any]:
    return {
        "mode": done.mode,
        "integrity": done.integrity,
        "integrity_after": done.integrity_after,
        "steps": done.steps,
        "dead_workers": done.dead_workers,
        "stale_workers": done.healed.stale_workers,
        "unrecovered": done.unrecovered,
        "errors": done.errors,
        "tasks_pending_after": done.tasks_pending_after,
        "locks_freed": done.healed.locks_freed,
        "suspects": done.suspects,
        "suspect_count": max(done.suspect_count, len(done.suspects)),
        "skipped_task_ids": done.healed.skipped_ids,
    }


def recovered(tx: Transaction, run_id: int, after: int, limit: int) -> list[RecoveredTask]:
    """The tasks a run moved, in its order; `after` so many positions of the stream."""
    rows = tx.rows("recovered_by_run", {"run_id": run_id, "after": after, "limit": limit})
    return [
        RecoveredTask(
            task_id, kind, worker, status, reason, attempt, max_retries, max_recoveries, error,
            utc_of(at), pos,
        )
        for (pos, task_id, kind, worker, status, reason, attempt, max_retries, max_recoveries,
             error, at) in rows
    ]  # fmt: skip


def recovered_count(tx: Transaction, run_id: int, after: int) -> int:
    """How many tasks a run moved behind a position of the stream."""
    return int(tx.value("recovered_count", {"run_id": run_id, "after": after}))
