"""Checkpoints of a running task: checked, encoded, and appended under its lease."""

from typing import TYPE_CHECKING, Any

from outlast.domain import codec
from outlast.domain.escaping import shown
from outlast.domain.names import checked_id
from outlast.domain.task import CHECKPOINT_TYPES, Checkpoint
from outlast.errors import InvalidInput, TaskNotFound
from outlast.store.future import Future
from outlast.store.records import Claimed, NewCheckpoint
from outlast.store.session import Session
from outlast.tasks.ids import new_id

if TYPE_CHECKING:
    from outlast.store.store import Store


def add(
    session: Session, claimed: Claimed, type: str, data: Any, metadata: Any
) -> Future[Checkpoint]:
    """Append one checkpoint; a stale lease writes nothing."""
    session.refuse_strangers(claimed.task_id)
    new = NewCheckpoint(
        new_id(),
        checked_type(type),
        codec.encode(data, "checkpoint data"),
        None if metadata is None else codec.encode(metadata, "checkpoint metadata"),
    )
    return session.store.checkpoints.add_soon(claimed.grant, claimed.task_id, new, session.now())


def find(reads: "Store", task_id: str | None, type: str | None, limit: int) -> list[Checkpoint]:
    """A task's checkpoints in order; without a task, the newest of one type anywhere."""
    wanted = None if type is None else checked_type(type)
    if task_id is not None:
        found = reads.checkpoints.of_task(checked_id(task_id), wanted, limit)
        if not found and reads.tasks.get(task_id) is None:
            raise TaskNotFound(task_id)
        return found
    if wanted is None:
        raise InvalidInput("checkpoints needs a task id, a type, or both")
    return reads.checkpoints.of_type(wanted, limit)


def checked_type(type: str) -> str:
    """One of the eight types."""
    if type not in CHECKPOINT_TYPES:
        raise InvalidInput(
            f"a checkpoint's type is one of {', '.join(CHECKPOINT_TYPES)}, not {shown(type)}"
        )
    return type
