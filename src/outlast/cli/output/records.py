"""Records of the library as data for --json and as cells for tables."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from outlast.cli.output.text import age, cut, moment
from outlast.errors import PayloadDamaged

if TYPE_CHECKING:
    from outlast import Checkpoint, Move, Task

TASK_COLUMNS = ("id", "kind", "queue", "status", "attempt", "age", "worker", "error")
TASK_NUMBERS = frozenset({"attempt", "age"})
_WIDEST_CELL = 200


def task_data(task: "Task") -> dict[str, Any]:
    """A task without its payload and result, which may be large or nobody's business."""
    return {
        "id": task.id,
        "kind": task.kind,
        "queue": task.queue,
        "status": task.status.value,
        "parked": None if task.parked is None else task.parked.value,
        "priority": task.priority,
        "group": task.group,
        "stage": task.stage,
        "attempt": task.attempt,
        "retry_count": task.retry_count,
        "recovery_count": task.recovery_count,
        "crashes_in_row": task.crashes_in_row,
        "max_retries": task.max_retries,
        "max_recoveries": task.max_recoveries,
        "worker": task.worker,
        "last_worker": task.last_worker,
        "error": task.error,
        "retry_of": task.retry_of,
        "created_at": moment(task.created_at),
        "updated_at": moment(task.updated_at),
        "not_before": moment(task.not_before),
        "started_at": moment(task.started_at),
        "completed_at": moment(task.completed_at),
        "lease_expires_at": moment(task.lease_expires_at),
    }


def task_cells(task: "Task", now: datetime) -> tuple[str, ...]:
    """A task as one row under TASK_COLUMNS."""
    return (
        task.id,
        task.kind,
        task.queue,
        status_words(task),
        str(task.attempt),
        age(task.created_at, now),
        task.worker or task.last_worker or "",
        cut(first_line(task.error), _WIDEST_CELL),
    )


def status_words(task: "Task") -> str:
    """The status, and why a pending task is not eligible."""
    return task.status.value if task.parked is None else f"{task.status.value} ({task.parked})"


def first_line(error: str | None) -> str:
    """The line of an error that says what it is; its frames follow it."""
    return error.partition("\n")[0] if error else ""


def move_data(move: "Move") -> dict[str, Any]:
    """One row of a task's history."""
    return {
        "at": moment(move.at),
        "from_status": move.from_status.value,
        "to_status": move.to_status.value,
        "actor": move.actor,
        "reason": move.reason,
        "attempt": move.attempt,
        "worker": move.worker,
        "error": move.error,
        "exit_signal": move.exit_signal,
        "peak_memory_bytes": move.peak_memory_bytes,
    }


def checkpoint_data(checkpoint: "Checkpoint", *, with_content: bool) -> dict[str, Any]:
    """One checkpoint; what it holds only where it was asked for."""
    data: dict[str, Any] = {
        "id": checkpoint.id,
        "type": checkpoint.type,
        "sequence_number": checkpoint.sequence_number,
        "attempt": checkpoint.attempt,
        "created_at": moment(checkpoint.created_at),
    }
    if with_content:
        data |= {"data": checkpoint.data, "metadata": checkpoint.metadata}
    return data


def content_data(task: "Task", *, with_content: bool) -> dict[str, Any]:
    """The sizes of payload and result; themselves only where they were asked for."""
    data: dict[str, Any] = {
        "payload_bytes": _bytes_of(task.stored_payload.text),
        "result_bytes": _bytes_of(task.stored_result.text),
    }
    if with_content:
        data |= {"payload": _readable(task, "payload"), "result": _readable(task, "result")}
        data["damaged"] = [name for name in ("payload", "result") if _is_damaged(task, name)]
    return data


def _bytes_of(text: str | None) -> int:
    return 0 if text is None else len(text.encode(errors="replace"))


def _readable(task: "Task", name: str) -> Any:
    return None if _is_damaged(task, name) else getattr(task, name)


def _is_damaged(task: "Task", name: str) -> bool:
    try:
        getattr(task, name)
    except PayloadDamaged:
        return True
    return False
