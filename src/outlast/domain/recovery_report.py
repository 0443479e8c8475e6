"""A recovery run as a person reads it, and as a machine does; both frozen at the run's own times.

The text keeps the layout of the seed that asked for it. The document carries the field sets of both
seeds, so that either one's consumers find what they know.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from outlast.domain.record import record
from outlast.domain.recovery import DeadWorker, RecoveredTask, RecoveryReport, Suspect

HEADING = "=== Queue Recovery Report ==="

# How a task was put back: charged, or not. One that is final failed, for whatever reason.
_ACTIONS = {"retry": "retry", "reset": "pending"}
_NEVER_STARTED = "never_started"
_LIMIT = "max_retries_exceeded"


@record(frozen=True, slots=True)
class TaskLine:
    """What became of one orphan."""

    task_id: str
    kind: str
    action: str
    attempt: int
    """The attempt that is about to be made; the last one that was made, if it failed."""
    limit: int
    """Attempts that its own retries allow; crashes have a budget of their own beside them."""
    success: bool
    reason: str
    error: str | None
    previous_worker: str | None
    at: str


@record(frozen=True, slots=True)
class WorkerLine:
    """A dead worker and what it left."""

    worker: str
    incarnation: str
    pid: int
    host: str
    because: str
    last_beat_at: str
    silent_seconds: float
    tasks_put_back: int
    tasks_failed: int
    tasks: tuple[str, ...] = ()
    """Its tasks, as far as they are among those listed."""


@record(frozen=True, slots=True)
class StepLine:
    """One step of the run."""

    name: str
    outcome: str
    seconds: float


@record(frozen=True, slots=True)
class ReportDocument:
    """A run for machines. The names of the second group are the other seed's."""

    run_id: int
    trigger: str
    mode: str
    pid: int
    host: str
    started_at: str
    completed_at: str
    duration_seconds: float
    previous_stop: str
    crashed_at: str | None
    integrity: str
    integrity_reason: str
    integrity_errors: tuple[str, ...]
    integrity_after: str
    integrity_after_reason: str
    wal_frames_moved: int | None
    orphaned_tasks_found: int
    successful_recoveries: int
    failed_recoveries: int
    tasks_held: int
    tasks_skipped: int
    skipped_tasks: tuple[str, ...]
    """The first hundred that policy leaves alone, for a person to decide about."""
    recovered_tasks: tuple[TaskLine, ...]
    recovered_tasks_not_listed: int
    """How many follow behind those."""
    next_after: int | None
    """Behind which position the next page of them begins, if there may be one."""
    unrecovered_tasks: tuple[dict[str, str], ...]
    dead_workers: tuple[WorkerLine, ...]
    stale_workers: tuple[str, ...]
    repeatedly_orphaned: tuple[Suspect, ...]
    repeatedly_orphaned_not_listed: int
    steps: tuple[StepLine, ...]
    was_successful: bool
    runs_without_findings_since: int
    recovered_at: str
    jobs_recovered: int
    jobs_pending: int
    jobs_running_before_crash: int
    jobs_reset_to_pending: int
    wal_size_before_recovery_bytes: int | None
    recovery_duration_seconds: float
    errors: tuple[str, ...]

    def __str__(self) -> str:
        """In the layout of the seed; what it has no line for comes where it belongs."""
        return "\n".join(_lines(self)) + "\n"


def document(
    report: RecoveryReport,
    tasks: Sequence[RecoveredTask],
    empty_runs_since: int = 0,
    *,
    following: int = 0,
) -> ReportDocument:
    """The run with as many of its tasks as are given, and how many come behind them."""
    listed = tuple(map(task_line, tasks))
    return ReportDocument(
        **_run(report),
        wal_frames_moved=report.wal_frames_moved,
        orphaned_tasks_found=report.orphaned_tasks_found,
        successful_recoveries=report.successful_recoveries,
        failed_recoveries=report.failed_recoveries,
        tasks_held=report.tasks_held,
        tasks_skipped=report.tasks_skipped,
        skipped_tasks=report.skipped_task_ids,
        recovered_tasks=listed,
        recovered_tasks_not_listed=following,
        next_after=tasks[-1].pos if tasks and following else None,
        unrecovered_tasks=tuple(
            {"task_id": one.task_id, "error": one.error} for one in report.unrecovered
        ),
        dead_workers=tuple(_worker_line(one, report, listed) for one in report.dead_workers),
        stale_workers=report.stale_workers,
        repeatedly_orphaned=report.suspects,
        repeatedly_orphaned_not_listed=max(0, report.suspect_count - len(report.suspects)),
        steps=tuple(StepLine(one.name, one.outcome, one.seconds) for one in report.steps),
        was_successful=report.was_successful(),
        runs_without_findings_since=empty_runs_since,
        **_other_seeds_names(report),
    )


def _run(report: RecoveryReport) -> dict[str, Any]:
    before, after = report.integrity, report.integrity_after
    return {
        "run_id": report.run_id,
        "trigger": report.trigger,
        "mode": report.mode,
        "pid": report.pid,
        "host": report.host,
        "started_at": _iso(report.started_at),
        "completed_at": _iso(report.completed_at),
        "duration_seconds": report.duration_seconds,
        "previous_stop": report.previous.value,
        "crashed_at": None if report.crashed_at is None else _iso(report.crashed_at),
        "integrity": before.verdict.value,
        "integrity_reason": before.reason,
        "integrity_errors": before.errors,
        "integrity_after": after.verdict.value,
        "integrity_after_reason": after.reason,
    }


def _other_seeds_names(report: RecoveryReport) -> dict[str, Any]:
    return {
        "recovered_at": _iso(report.completed_at),
        "jobs_recovered": report.tasks_put_back + report.tasks_failed,
        "jobs_pending": report.tasks_pending_after,
        "jobs_running_before_crash": report.tasks_running_before,
        "jobs_reset_to_pending": report.tasks_put_back,
        "wal_size_before_recovery_bytes": report.wal_bytes,
        "recovery_duration_seconds": report.duration_seconds,
        "errors": report.errors,
    }


def task_line(task: RecoveredTask) -> TaskLine:
    """What became of one orphan, from the row of the log that moved it."""
    back = task.status == "pending"
    return TaskLine(
        task_id=task.task_id,
        kind=task.kind,
        action=_action(task.reason) if back else "fail",
        attempt=task.attempt + 1 if back else task.attempt,
        limit=1 + task.max_retries,
        success=back,
        reason=task.reason,
        error=task.error,
        previous_worker=task.previous_worker,
        at=_iso(task.at),
    )


def _action(reason: str) -> str:
    if reason == _NEVER_STARTED:
        return "pending"
    return _ACTIONS.get(reason.rpartition("_")[2], "retry")


def _worker_line(
    dead: DeadWorker, report: RecoveryReport, listed: Sequence[TaskLine]
) -> WorkerLine:
    return WorkerLine(
        worker=dead.worker,
        incarnation=dead.incarnation,
        pid=dead.pid,
        host=dead.host,
        because=dead.because,
        last_beat_at=_iso(dead.last_beat_at),
        silent_seconds=max(0.0, (report.started_at - dead.last_beat_at).total_seconds()),
        tasks_put_back=dead.tasks_put_back,
        tasks_failed=dead.tasks_failed,
        tasks=_tasks_of(dead, report, listed),
    )


def _tasks_of(
    dead: DeadWorker, report: RecoveryReport, listed: Sequence[TaskLine]
) -> tuple[str, ...]:
    """By what it was seen to hold; by its name only when it held more, and nobody shares that."""
    is_known = len(dead.task_ids) >= dead.tasks_put_back + dead.tasks_failed
    namesakes = sum(one.worker == dead.worker for one in report.dead_workers)
    held = frozenset(dead.task_ids)
    if is_known or namesakes > 1:
        return tuple(one.task_id for one in listed if one.task_id in held)
    return tuple(one.task_id for one in listed if one.previous_worker == dead.worker)


def _lines(shown: ReportDocument) -> Iterator[str]:
    yield HEADING
    yield f"Started: {shown.started_at}"
    yield f"Duration: {_seconds(shown.duration_seconds)}"
    yield from _session(shown)
    yield ""
    yield f"Integrity Check: {_verdict(shown.integrity, shown.integrity_reason)}"
    yield from (f"  - {error}" for error in shown.integrity_errors)
    frames = shown.wal_frames_moved
    yield f"WAL Checkpointed: {'in use' if frames is None else f'{frames} frames'}"
    yield ""
    yield f"Orphaned Tasks Found: {shown.orphaned_tasks_found}"
    yield from (f"  - {one.task_id}: {outcome(one)}" for one in shown.recovered_tasks)
    yield from (
        f"  - {one['task_id']}: NOT RECOVERED ({one['error']})" for one in shown.unrecovered_tasks
    )
    yield from _more(shown.recovered_tasks_not_listed)
    yield from _apart(shown)
    yield ""
    yield f"Dead Workers: {len(shown.dead_workers)}"
    yield from (
        f"  - {one.worker} (last heartbeat: {_age(one.silent_seconds)} ago)"
        for one in shown.dead_workers
    )
    yield from _again_and_again(shown)
    yield ""
    yield from _after(shown)
    yield f"Recovery Complete: {shown.completed_at}"


def _session(shown: ReportDocument) -> Iterator[str]:
    if shown.previous_stop == "unclean":
        since = f", last seen alive {shown.crashed_at}" if shown.crashed_at else ""
        yield f"Previous Session: crashed{since}"


def _apart(shown: ReportDocument) -> Iterator[str]:
    if shown.tasks_held:
        yield f"Held For Approval: {shown.tasks_held}"
    if shown.tasks_skipped:
        yield f"Left Alone By Policy: {shown.tasks_skipped}"
        yield from (f"  - {task_id}" for task_id in shown.skipped_tasks)
        yield from _more(shown.tasks_skipped - len(shown.skipped_tasks))


def _again_and_again(shown: ReportDocument) -> Iterator[str]:
    if shown.repeatedly_orphaned:
        yield ""
        unlisted = shown.repeatedly_orphaned_not_listed
        yield f"Repeatedly Orphaned: {len(shown.repeatedly_orphaned) + unlisted}"
        yield from (
            f"  - {one.task_id}: {one.recoveries} times; {one.likely_cause}"
            for one in shown.repeatedly_orphaned
        )
        yield from _more(unlisted)


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"  - and {number} more"


def _after(shown: ReportDocument) -> Iterator[str]:
    if shown.integrity_after != "SKIPPED":
        yield f"Verification: {shown.integrity_after}"
    if shown.errors:
        yield f"Errors: {len(shown.errors)}"
        yield from (f"  - {error}" for error in shown.errors)


def outcome(one: TaskLine) -> str:
    """The action with the attempt to come over the limit, or the true cause of a failure."""
    if one.success:
        if one.attempt <= one.limit:
            return f"{one.action} (attempt {one.attempt}/{one.limit})"
        return f"{one.action} (attempt {one.attempt}; crashes have a budget of their own)"
    if one.reason == _LIMIT:
        return "failed (max attempts exceeded)"
    if one.reason.endswith("policy_fail"):
        return "failed (by policy)"
    return f"failed ({one.error or one.reason})"


def _verdict(word: str, reason: str) -> str:
    return f"{word} ({reason})" if reason else word


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds >= 0.05 else f"{seconds * 1000:.0f}ms"


def _age(seconds: float) -> str:
    whole = timedelta(seconds=round(seconds))
    minutes, rest = divmod(whole.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if whole.days:
        return f"{whole.days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return (
        f"{minutes}m" if minutes and not rest else f"{minutes}m {rest}s" if minutes else f"{rest}s"
    )


def _iso(at: datetime) -> str:
    """UTC to the second as the seed shows it, with a fraction only if there is one."""
    said = at.isoformat(timespec="milliseconds" if at.microsecond else "seconds")
    return said.replace("+00:00", "Z")
