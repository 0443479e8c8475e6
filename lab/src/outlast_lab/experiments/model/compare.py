"""The queue as its reads show it, against the model: every task, every move, every count."""

from datetime import datetime
from typing import Any

from outlast.app.app import Outlast
from outlast.domain.task import Task as SeenTask
from outlast_lab.experiments.model.records import Task
from outlast_lab.experiments.model.reference import Model
from outlast_lab.experiments.model.script import Broken

FULL_EVERY = 8


class Comparison:
    """Compares after each step; the histories of untouched tasks are read only now and then."""

    def __init__(self) -> None:
        self._compared: dict[str, tuple[Any, ...]] = {}
        self._count = 0

    def compare(self, app: Outlast, model: Model, in_full: bool = False) -> None:
        """Raises Broken where the queue differs from the model in anything a user can see."""
        self._count += 1
        found = app.tasks(limit=1000)
        same(
            "the tasks",
            [_seen(task) for task in reversed(found)],
            [_wanted(task) for task in model.tasks],
        )
        same("the counts", app.counts(), model.counts())
        for queue in sorted({task.queue for task in model.tasks}):
            same(f"the counts of {queue}", app.counts(queue), model.counts(queue=queue))
        in_full = in_full or self._count % FULL_EVERY == 0
        for task in model.tasks:
            now = (*_wanted(task), len(task.moves), len(task.checkpoints))
            if in_full or self._compared.get(task.id) != now:
                _compare_history(app, task)
                self._compared[task.id] = now
        _compare_groups(app, model)
        _compare_holders(app, model)


def same(what: str, found: Any, wanted: Any) -> None:
    """Raises Broken with the first difference."""
    if found == wanted:
        return
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for one, other in zip(found, wanted, strict=True):
            if one != other:
                raise Broken(f"{what} differ: the queue says {one}, the model {other}")
    raise Broken(f"{what} differ: the queue says {found}, the model {wanted}")


def _seen(task: SeenTask) -> tuple[Any, ...]:
    waits = task.parked == "delay"
    return (
        (task.id, task.kind, task.payload, task.queue, task.priority, task.group, task.retry_of),
        (task.status, task.parked, ms(task.not_before) if waits else None),
        (task.attempt, task.retry_count, task.recovery_count, task.crashes_in_row, task.token),
        (task.max_retries, task.max_recoveries),
        (task.worker, ms(task.lease_expires_at) is not None, task.result),
    )


def _wanted(task: Task) -> tuple[Any, ...]:
    waits = task.parked == "delay"
    return (
        (task.id, task.kind, task.payload, task.queue, task.priority, task.group, task.retry_of),
        (task.status, task.parked, task.not_before if waits else None),
        (task.attempt, task.retries, task.recoveries, task.crashes_in_row, task.token),
        (task.max_retries, task.max_recoveries),
        (task.lease.worker if task.lease else None, task.lease is not None, task.result),
    )


def _compare_history(app: Outlast, task: Task) -> None:
    moves = app.history(task.id)
    found = [
        (move.from_status, move.to_status, move.actor, move.attempt, move.token) for move in moves
    ]
    same(f"the moves of {task.id}", found, task.moves)
    times = [move.at for move in moves]
    if times != sorted(times):
        raise Broken(f"time runs backwards in the history of {task.id}")
    if task.checkpoints:
        written = [(one.sequence_number, one.type, one.attempt) for one in app.checkpoints(task.id)]
        same(f"the checkpoints of {task.id}", written, task.checkpoints)


def _compare_groups(app: Outlast, model: Model) -> None:
    for name in sorted({task.group for task in model.tasks if task.group}):
        group = app.group(name)
        counts = model.counts(group=name)
        same(f"the counts of group {name}", group.counts, counts)
        same(f"the end of group {name}", group.done, counts["pending"] + counts["running"] == 0)


def _compare_holders(app: Outlast, model: Model) -> None:
    """A running task has one holder, and nobody else is said to hold it.

    What is left with the dead on purpose is not held: nobody is there to hold it.
    """
    held: dict[str, list[str]] = {}
    left: set[str] = set()
    for task in model.running():
        if task.lease is not None:
            held.setdefault(task.lease.worker, []).append(task.id)
            if task.lease.session.incarnation.dead and model.is_spared(task):
                left.add(task.lease.worker)
    for worker, ids in held.items():
        if worker in left:
            continue
        same(f"what {worker} holds", [task.id for task in app.held_by(worker)], ids)


def ms(when: datetime | None) -> int | None:
    """Milliseconds, as the model counts."""
    return None if when is None else round(when.timestamp() * 1000)
