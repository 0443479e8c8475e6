"""The queue as its reads show it, against the model: every task, every move, every count."""

from datetime import datetime
from typing import Any

import outlast
from outlast import Outlast
from tests.property.model import Model
from tests.property.records import Task


def compare(app: Outlast, model: Model) -> None:
    """Raises where the queue differs from the model in anything a user can see."""
    found = app.tasks(limit=1000)
    assert [_seen(task) for task in reversed(found)] == [_wanted(task) for task in model.tasks]
    assert app.counts() == model.counts()
    for queue in {task.queue for task in model.tasks}:
        assert app.counts(queue) == model.counts(queue=queue)
    for task in model.tasks:
        _compare_history(app, task)
    _compare_groups(app, model)
    _compare_holders(app, model)


def _seen(task: outlast.Task) -> tuple[Any, ...]:
    waits = task.parked == "delay"
    return (
        (task.id, task.kind, task.payload, task.queue, task.priority, task.group, task.retry_of),
        (task.status, task.parked, ms(task.not_before) if waits else None),
        (task.attempt, task.retry_count, task.recovery_count, task.max_retries, task.token),
        (task.worker, ms(task.lease_expires_at) is not None, task.result),
    )


def _wanted(task: Task) -> tuple[Any, ...]:
    waits = task.parked == "delay"
    return (
        (task.id, task.kind, task.payload, task.queue, task.priority, task.group, task.retry_of),
        (task.status, task.parked, task.not_before if waits else None),
        (task.attempt, task.retries, task.recoveries, task.max_retries, task.token),
        (task.lease.worker if task.lease else None, task.lease is not None, task.result),
    )


def _compare_history(app: Outlast, task: Task) -> None:
    moves = app.history(task.id)
    assert task.moves == [
        (move.from_status, move.to_status, move.actor, move.attempt, move.token) for move in moves
    ]
    times = [move.at for move in moves]
    assert times == sorted(times), "time runs backwards in the history"
    if task.checkpoints:
        assert task.checkpoints == [
            (one.sequence_number, one.type, one.attempt) for one in app.checkpoints(task.id)
        ]


def _compare_groups(app: Outlast, model: Model) -> None:
    for name in {task.group for task in model.tasks if task.group}:
        group = app.group(name)
        counts = model.counts(group=name)
        assert group.counts == counts
        assert group.done == (counts["pending"] + counts["running"] == 0)


def _compare_holders(app: Outlast, model: Model) -> None:
    """A running task has one holder, and nobody else is said to hold it."""
    held: dict[str, list[str]] = {}
    for task in model.running():
        assert task.lease is not None
        held.setdefault(task.lease.worker, []).append(task.id)
    for worker, ids in held.items():
        assert [task.id for task in app.held_by(worker)] == ids


def ms(when: datetime | None) -> int | None:
    return None if when is None else round(when.timestamp() * 1000)
