"""Rows as they come from the read models, turned into the records users see."""

from typing import Any

from outlast.domain import codec
from outlast.domain.lifecycle import Parked, Status
from outlast.domain.task import Checkpoint, Move, Stored, Task, utc
from outlast.store.records import KeyRecord
from outlast.store.transaction import Row, text_of


def task_from(row: Row) -> Task:
    """A task from the columns of task_records, in their order."""
    values: list[Any] = list(row[:28])
    values[3] = Status(row[3])
    values[6] = Parked(row[6]) if row[6] else None
    values[19:28] = [utc(ms) for ms in row[19:28]]
    values += [Stored(text_of(row[28]), row[29]), Stored(text_of(row[30]), row[31])]
    return Task(*values)


def move_from(row: Row) -> Move:
    """One row of a task's history."""
    at, start, end, *rest = row
    values = [utc(at), Status(start), Status(end), *rest]
    return Move(*values)


def checkpoint_from(row: Row) -> Checkpoint:
    """One checkpoint, its texts decoded."""
    values = [*row[:6], codec.decode(row[6]), _decoded(row[7]), utc(row[8])]
    return Checkpoint(*values)


def key_from(row: Row) -> KeyRecord:
    """One idempotency key."""
    values = [*row[:4], _decoded(row[4]), row[5], *(utc(ms) for ms in row[6:9])]
    return KeyRecord(*values)


def _decoded(text: str | None) -> Any:
    return None if text is None else codec.decode(text)
