"""Waiting for others: sleep until there is a reason to look; for work, and for results."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from outlast.app import claim
from outlast.app.lease import Lease
from outlast.app.why import why
from outlast.clock import Instant
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.lifecycle import Status
from outlast.domain.task import Task
from outlast.errors import TaskCancelled, TaskFailed, TaskNotFound
from outlast.store.change_watch import ChangeWatch
from outlast.store.records import ClaimRequest
from outlast.store.session import Session

if TYPE_CHECKING:
    from outlast.store.store import Store


def work_watch(session: Session, timeout_seconds: float) -> ChangeWatch:
    """A watch for work."""
    return ChangeWatch(session.store, timeout_seconds, session)


def claim_when_ready(
    session: Session, request: ClaimRequest, lease: Duration | None, wait: Duration | None
) -> list[Lease]:
    """Claim, waiting for something eligible if need be; an empty list when the time is up."""
    timeout_seconds = 0.0 if wait is None else duration_ms(wait, "wait") / 1000
    claimed = claim.claim(session, request, lease)
    if claimed or not timeout_seconds:
        return claimed
    watch = work_watch(session, timeout_seconds)
    with closing(session.store.work_listener()) as listener:
        while True:
            watch.begin()
            claimed = claim.claim(session, request, lease)
            if claimed or watch.is_over:
                return claimed
            while (pause := watch.pause_seconds()) > 0 and not listener.wait(pause):
                pass


def wait_for(
    reads: "Store", task_id: str, timeout: Duration | None, clock: Callable[[], Instant]
) -> Any:
    """The result of a task once it has one; raises what became of it instead."""
    watch = ChangeWatch(reads, timeout_seconds(timeout))
    with closing(reads.result_listener()) as listener:
        while True:
            watch.begin()
            if ended_among(reads, [task_id]):
                return outcome(reads.tasks.get(task_id), task_id)
            if watch.is_over:
                raise too_late(reads, task_id, timeout, clock())
            while (pause := watch.pause_seconds()) > 0 and not listener.wait(pause):
                pass


def ended_among(reads: "Store", task_ids: Sequence[str]) -> list[str]:
    """Those of these tasks that will not change any more."""
    return reads.tasks.ended_among(task_ids) if task_ids else []


def timeout_seconds(timeout: Duration | None) -> float | None:
    """A caller's patience in seconds; None for ever."""
    return None if timeout is None else duration_ms(timeout, "timeout") / 1000


def too_late(reads: "Store", task_id: str, timeout: Duration | None, now: Instant) -> TimeoutError:
    """The error of one who waited long enough; the task itself is as it was."""
    task = reads.tasks.get(task_id)
    reason = "" if task is None else f" ({why(reads, task, now)})"
    waited = f"{timeout_seconds(timeout):g} s"
    return TimeoutError(
        f"task {task_id} did not end within {waited}{reason}; nothing was done to it, ask again"
    )


def outcome(task: Task | None, task_id: str) -> Any:
    """What a final task answers to one who waited for it."""
    if task is None:
        raise TaskNotFound(task_id)
    if task.status is Status.FAILED:
        raise TaskFailed(task_id, task.error)
    if task.status is Status.CANCELLED:
        raise TaskCancelled(task_id)
    return task.result
