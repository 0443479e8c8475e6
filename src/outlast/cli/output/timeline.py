"""A task's life as a drawing: created, every move, every checkpoint, with the time between them."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from outlast.cli.output.records import first_line
from outlast.cli.output.text import count, size, span, stamp

if TYPE_CHECKING:
    from outlast import Checkpoint, Move, Task

CHECKPOINTS_SHOWN = 20

_SIGNS = {"running": "▶", "completed": "●", "failed": "✗", "cancelled": "■", "pending": "↺"}
_CREATED, _CHECKPOINT, _BETWEEN = "○", "·", "│"
_TIME_WIDTH = 9


class _Point(NamedTuple):
    """One thing that happened, with what is to be said below it."""

    at: datetime
    sign: str
    words: str
    below: str = ""


def timeline(
    task: "Task", moves: Sequence["Move"], checkpoints: Sequence["Checkpoint"]
) -> list[str]:
    """The lines of the drawing; times count from the task's creation."""
    shown = checkpoints[-CHECKPOINTS_SHOWN:]
    points = [_move_point(move) for move in moves]
    points += [_checkpoint_point(one) for one in shown]
    points.sort(key=lambda point: point.at)
    lines = [f"{'0':>{_TIME_WIDTH}}  {_CREATED} created {stamp(task.created_at)}"]
    if len(shown) < len(checkpoints):
        hidden = count(len(checkpoints) - len(shown), "earlier checkpoint")
        lines.append(f"{'':>{_TIME_WIDTH}}  {_BETWEEN} ({hidden} not shown)")
    for point in points:
        lines += _drawn(point, task.created_at)
    return lines


def _drawn(point: _Point, start: datetime) -> list[str]:
    since = span((point.at - start).total_seconds())
    lines = [f"{since:>{_TIME_WIDTH}}  {point.sign} {point.words}"]
    if point.below:
        lines.append(f"{'':>{_TIME_WIDTH}}  {_BETWEEN}   {point.below}")
    return lines


def _move_point(move: "Move") -> _Point:
    status = move.to_status.value
    by = f"by {move.worker}" if move.actor == "worker" and move.worker else f"by {move.actor}"
    reason = move.reason.replace("_", " ")
    if status == "running":
        words = f"running, attempt {move.attempt}, {by}"
    elif status == reason:
        words = f"{status} {by}"
    else:
        words = f"{'pending again' if status == 'pending' else status}: {reason}, {by}"
    return _Point(move.at, _SIGNS[status], words + _exit(move), first_line(move.error))


def _exit(move: "Move") -> str:
    """How the process of an isolated attempt ended."""
    parts = []
    if move.exit_signal is not None:
        parts.append(f"signal {move.exit_signal}")
    if move.peak_memory_bytes is not None:
        parts.append(f"peak memory {size(move.peak_memory_bytes)}")
    return f" ({', '.join(parts)})" if parts else ""


def _checkpoint_point(checkpoint: "Checkpoint") -> _Point:
    words = f"checkpoint {checkpoint.sequence_number}, {checkpoint.type}"
    return _Point(checkpoint.created_at, _CHECKPOINT, words)
