"""One sentence on why a task is where it is, with the evidence in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from outlast.clock import Instant
from outlast.domain.budgets import budget_is_spent
from outlast.domain.lifecycle import MAX_RETRIES_EXCEEDED, RECOVERY, Parked, Status
from outlast.domain.orphans import Patience
from outlast.domain.task import Move, Task
from outlast.domain.worker import WorkerInfo, WorkerState
from outlast.host import processes
from outlast.store.records import Holder

if TYPE_CHECKING:
    from outlast.store.store import Store

PATIENCE = Patience(stale_ms=90_000, grace_ms=10_000)
SHOWN_CHARACTERS = 200
AHEAD_LIMIT = 1000

_DUE = "recovery is due and the next claim may put it back"
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (0, "s"))


def why(
    store: "Store",
    task: Task,
    now: Instant,
    patience: Patience = PATIENCE,
    *,
    is_spared: bool = False,
) -> str:
    """Why the task does not run, or what became of it; recovery may leave its kind alone."""
    if task.status is Status.RUNNING:
        return _why_running(store, task, now, patience, is_spared)
    if task.status is Status.PENDING:
        return _why_pending(store, task, now, patience)
    return _why_final(store, task)


def _why_running(
    store: "Store", task: Task, now: Instant, patience: Patience, is_spared: bool
) -> str:
    holder = store.workers.holder_of(task, now, patience)
    text = f"running, attempt {task.attempt}"
    if holder is None:
        return f"{text}, when it was last seen; ask again"
    if holder.waits_for_its_turn:
        text += f", prefetched by {_holder(holder)} and waiting there for its turn"
    else:
        text += f", held by {_holder(holder)}"
    if task.lease_expires_at is not None:
        text += f" with a lease until {_second(task.lease_expires_at)}"
    if holder.state in (WorkerState.DEAD, WorkerState.LEFT) or holder.lease_ran_out:
        ran_out = ", which ran out" if holder.lease_ran_out else ""
        text += f"{ran_out}; {_to_person(task) if is_spared else _DUE}"
    return text


def _to_person(task: Task) -> str:
    force = f"outlast task force retry|fail {task.id}"
    return f"recovery leaves kind {task.kind} to a person: {force} (or app.force)"


def _holder(holder: Holder) -> str:
    beat = f"beat {_span(holder.silent_ms)} ago"
    facts = [
        f"pid {holder.pid}",
        "" if holder.host == processes.this_process().host else f"on {holder.host}",
        "this process" if holder.is_this_process else "",
        beat if holder.state is WorkerState.ALIVE else f"{holder.state}, {beat}",
    ]
    return f"worker {holder.name} ({', '.join(fact for fact in facts if fact)})"


def _why_pending(store: "Store", task: Task, now: Instant, patience: Patience) -> str:
    is_due = task.not_before is None or task.not_before.timestamp() * 1000 <= now.utc_ms
    if task.parked is Parked.DELAY and task.not_before is not None and not is_due:
        return f"delayed until {_millisecond(task.not_before)}{_after_its_past(task)}"
    if task.parked is Parked.PARTIAL:
        return "parked because its payload was damaged on disk; restore it, or cancel the task"
    if task.parked is Parked.HOLD and store.recovery.is_held(task.id):
        approve = f"outlast queue approve {task.id} (or app.approve_recovery)"
        return f"recovery put it back and holds it for approval: {approve}{_after_its_past(task)}"
    if task.parked not in (None, Parked.DELAY):
        forced = f"outlast task force pending {task.id} (or app.unpark)"
        return f"parked because of {task.parked}; to let it run: {forced}"
    if store.queues.is_paused(task.queue):
        return f"queue {task.queue} is paused: outlast queue resume {task.queue} (or app.unpause)"
    if budget_is_spent(task.crashes_in_row, task.max_recoveries):
        spent = f"{task.crashes_in_row} crashes in a row, of {task.max_recoveries} taken back"
        return f"pending: its budget is spent ({spent}), and the next claim will fail it"
    living = store.workers.living(now, patience, None)
    past = _after_its_past(task)
    return _why_not_claimed(store, task, living) + (f",{past}" if past else "")


def _why_not_claimed(store: "Store", task: Task, living: Sequence[WorkerInfo]) -> str:
    """Who might take it comes first: where nobody does, its place in the line means nothing."""
    takers = [one for one in living if one.serves is None or _takes(one, task)]
    if not takers:
        wanted = f"kind `{task.kind}` on queue `{task.queue}`"
        return f"pending: no live worker serves {wanted}{_who_serves_others(living)}"
    hindrances = [_hindrance(one, task) for one in takers]
    if all(hindrances):
        return f"pending: {hindrances[0]}"
    if task.not_before is not None and task.parked is Parked.DELAY:
        at = _millisecond(task.not_before)
        return f"pending: its delay ended at {at}, the next claim may take it"
    higher, earlier = store.tasks.ahead_of(task)
    if higher or earlier:
        parts = [f"{_many(higher)} of higher priority"] if higher else []
        parts += [f"{_many(earlier)} that came earlier"] if earlier else []
        return f"pending: behind {' and '.join(parts)} in queue {task.queue}"
    return f"pending: next in queue {task.queue}, waiting for {_waited_for(takers)} to claim it"


def _who_serves_others(living: Sequence[WorkerInfo]) -> str:
    if not living:
        return ""
    if len(living) == 1:
        return f" ({_worker(living[0])} lives and serves others)"
    return f" ({len(living)} workers live and serve others)"


def _takes(worker: WorkerInfo, task: Task) -> bool:
    return worker.serves is not None and worker.serves.takes(task.kind, task.queue)


def _hindrance(worker: WorkerInfo, task: Task) -> str | None:
    """Why a worker that serves the task will not take it now; None for one that claims by hand."""
    if worker.serves is None:
        return None
    for handler in worker.stuck:
        if handler.task_id == task.id:
            return (
                f"{_worker(worker)} still runs an attempt of it that was ended at"
                f" {_second(handler.since)} and does not stop, and takes it only after that"
            )
    if worker.state is WorkerState.STALE:
        return f"{_worker(worker)} serves it and has been silent for {_span_of(worker)}"
    return None


def _waited_for(takers: Sequence[WorkerInfo]) -> str:
    serving = [one for one in takers if one.serves is not None]
    if len(serving) != len(takers):
        return "a worker"
    if len(serving) > 1:
        return f"one of {len(serving)} workers"
    return f"{_worker(serving[0])}, which holds {_count(serving[0].task_count, 'task')},"


def _why_final(store: "Store", task: Task) -> str:
    moves = store.tasks.history(task.id) or []
    last = moves[-1] if moves else None
    text = f"{task.status} at {_second(last.at)}" if last else str(task.status)
    if task.status is Status.COMPLETED or last is None:
        return f"{text} by worker {task.last_worker}"
    error = _said(task.error)
    if last.reason == MAX_RETRIES_EXCEEDED and last.from_status is Status.RUNNING:
        return f"{text}: {_spent(task, last)}" + (f" (last error: {error})" if error else "")
    reason = last.reason.replace("_", " ")
    return f"{text} by {last.actor}: {reason}" + (f" ({error})" if error else "")


def _spent(task: Task, last: Move) -> str:
    """Failures and crashes have a budget each; who settled it tells which one ran dry."""
    if last.actor == RECOVERY:
        crashes = _times(task.crashes_in_row + 1)
        return f"it crashed {crashes} in a row, and its budget of recoveries is spent"
    failures = _times(task.retry_count + 1)
    return f"it failed {failures} and its budget of {task.max_retries} retries is spent"


def _after_its_past(task: Task) -> str:
    """What happened to it before, with the last error in it."""
    past = [_count(task.retry_count, "failure")] if task.retry_count else []
    past += [_count(task.recovery_count, "crash", "crashes")] if task.recovery_count else []
    if not past:
        return ""
    past = ["a failure"] if past == ["1 failure"] else past
    past = ["a crash"] if past == ["1 crash"] else past
    error = _said(task.error)
    return f" after {' and '.join(past)}" + (f" ({error})" if error else "")


def _said(error: str | None) -> str:
    """An error's first line, at a length that a sentence can bear."""
    line = (error or "").strip().split("\n", 1)[0]
    return line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + "…"


def _worker(worker: WorkerInfo) -> str:
    return f"worker {worker.name} (pid {worker.pid})"


def _span_of(worker: WorkerInfo) -> str:
    return _span(round(worker.silent_seconds * 1000))


def _span(ms: int) -> str:
    seconds = ms // 1000
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size)
    return f"{seconds // max(size, 1)} {unit}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _many(number: int) -> str:
    return f"{number} or more" if number >= AHEAD_LIMIT else str(number)


def _second(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _millisecond(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
