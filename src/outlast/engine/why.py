"""One sentence on why a task is where it is, with the evidence in it."""

from outlast.clock import Instant
from outlast.domain.lifecycle import Parked, Status
from outlast.domain.task import Task
from outlast.store.base import StoreReads


def why(store: StoreReads, task: Task, now: Instant) -> str:
    """Why the task does not run, or what became of it."""
    if task.status is Status.RUNNING:
        return _why_running(store, task, now)
    if task.status is Status.PENDING:
        return _why_pending(store, task, now)
    return _why_final(store, task)


def _why_running(store: StoreReads, task: Task, now: Instant) -> str:
    holder = store.holder_of(task) or "a worker that is not listed"
    text = f"running, attempt {task.attempt}, held by {holder}"
    if task.lease_expires_at is not None:
        text += f" with a lease until {task.lease_expires_at.isoformat(timespec='seconds')}"
    if store.healing_is_due(now):
        text += "; recovery is due and the next claim may put it back"
    return text


def _why_pending(store: StoreReads, task: Task, now: Instant) -> str:
    if task.parked is Parked.DELAY and task.not_before is not None:
        at = task.not_before.isoformat(timespec="milliseconds")
        if task.not_before.timestamp() * 1000 <= now.utc_ms:
            return f"pending: its delay ended at {at}, the next claim may take it"
        cause = f" after a failure ({task.error})" if task.retry_count else ""
        return f"delayed until {at}{cause}"
    if task.parked is Parked.PARTIAL:
        return "parked because its payload was damaged on disk; restore it, or cancel the task"
    if task.parked is not None:
        return f"parked because of {task.parked}; unpark it to let it run"
    if store.paused(task.queue):
        return f"queue {task.queue} is paused; unpause it to let it run"
    ahead = store.ahead_of(task)
    if ahead:
        count = f"{ahead} or more" if ahead >= 1000 else str(ahead)
        return f"pending: {count} of its queue come first"
    return f"pending: next in queue {task.queue}, waiting for a worker to claim it"


def _why_final(store: StoreReads, task: Task) -> str:
    moves = store.history(task.id) or []
    last = moves[-1] if moves else None
    text = f"{task.status} at {last.at.isoformat(timespec='seconds')}" if last else str(task.status)
    if task.status is Status.COMPLETED or last is None:
        return f"{text} by worker {task.last_worker}"
    reason = last.reason.replace("_", " ")
    return f"{text} by {last.actor}: {reason}" + (f" ({task.error})" if task.error else "")
