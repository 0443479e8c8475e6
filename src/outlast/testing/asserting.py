"""Facts about tasks for tests; one that does not hold is told with what is there instead."""

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from outlast.app.reading import MAX_LISTED
from outlast.domain import codec
from outlast.domain.lifecycle import Status
from outlast.domain.task import Task
from outlast.tasks.functions import AnyFunction, TaskFunction
from outlast.testing.draining import HasFunctions

MAX_SHOWN = 10
MAX_SHOWN_CHARACTERS = 200

_ANY: Any = object()


def assert_enqueued(
    app: HasFunctions,
    kind: str | AnyFunction,
    payload: Any = _ANY,
    *,
    queue: str | None = None,
) -> Task:
    """There is a task of this kind, whatever became of it; returns the newest that fits."""
    __tracebackhide__ = True
    name = kind.kind if isinstance(kind, TaskFunction) else kind
    tasks = _all(app)
    wanted = payload if payload is _ANY else codec.decode(codec.encode(payload, "payload"))
    for task in tasks:
        fits = task.kind == name and (queue is None or task.queue == queue)
        if fits and (payload is _ANY or task.payload == wanted):
            return task
    what = f"no task of kind {name!r}"
    what += "" if queue is None else f" in queue {queue!r}"
    what += "" if payload is _ANY else f" with payload {_shortened(wanted)}"
    return _refuse(f"{what} was enqueued", tasks)


def assert_completed(app: HasFunctions, which: str | Task | AnyFunction) -> Task:
    """The task of this id, or all tasks of this kind, are completed; returns the newest."""
    __tracebackhide__ = True
    return _assert_all(app, which, "completed", lambda task: task.status is Status.COMPLETED)


def assert_failed(
    app: HasFunctions, which: str | Task | AnyFunction, error: str | None = None
) -> Task:
    """The task of this id, or all tasks of this kind, failed, perhaps with this in the error."""
    __tracebackhide__ = True

    def is_failed(task: Task) -> bool:
        has_error = error is None or error in (task.error or "")
        return task.status is Status.FAILED and has_error

    verb = "failed" if error is None else f"failed with {error!r}"
    return _assert_all(app, which, verb, is_failed)


def assert_no_pending(app: HasFunctions, *, queue: str | None = None) -> None:
    """No task waits to be run, neither now nor later."""
    __tracebackhide__ = True
    tasks = [task for task in _all(app) if queue is None or task.queue == queue]
    pending = [task for task in tasks if task.status is Status.PENDING]
    if pending:
        where = "" if queue is None else f" in queue {queue!r}"
        count = "1 task is" if len(pending) == 1 else f"{len(pending)} tasks are"
        _refuse(f"{count} pending{where}", pending)


def _assert_all(
    app: HasFunctions,
    which: str | Task | AnyFunction,
    verb: str,
    holds: Callable[[Task], bool],
) -> Task:
    __tracebackhide__ = True
    tasks = _all(app)
    name, found = _chosen(which, tasks)
    if not found:
        _refuse(f"no task has the id or kind {name!r}", tasks)
    if not all(map(holds, found)):
        _refuse(f"not every task of {name!r} {verb}", found)
    return found[0]


def _chosen(which: str | Task | AnyFunction, tasks: list[Task]) -> tuple[str, list[Task]]:
    if isinstance(which, Task):
        return which.id, [task for task in tasks if task.id == which.id]
    if isinstance(which, TaskFunction):
        return which.kind, [task for task in tasks if task.kind == which.kind]
    by_id = [task for task in tasks if task.id == which]
    return which, by_id or [task for task in tasks if task.kind == which]


def _all(app: HasFunctions) -> list[Task]:
    return app.functions.serve().store.find(None, None, None, MAX_LISTED)


def _refuse(fact: str, tasks: Iterable[Task]) -> NoReturn:
    __tracebackhide__ = True
    rows = [_shown(task) for task in tasks]
    lines = "\n".join(f"  {row}" for row in rows[:MAX_SHOWN])
    more = f"\n  and {len(rows) - MAX_SHOWN} more" if len(rows) > MAX_SHOWN else ""
    there = f"; there are:\n{lines}{more}" if rows else "; there are no tasks at all"
    raise AssertionError(fact + there)


def _shown(task: Task) -> str:
    state = f"{task.status}, {task.parked}" if task.parked else f"{task.status}"
    error = f", error {_shortened(task.error)}" if task.error else ""
    return f"{task.kind} {task.id} ({state}, queue {task.queue}{error}) {_shortened(task.payload)}"


def _shortened(value: Any) -> str:
    text = repr(value)
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}…"
