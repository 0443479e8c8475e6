"""Checkpoints of a running task: checked, encoded, and appended under its lease."""

from typing import Any

from outlast.domain import codec
from outlast.domain.task import CHECKPOINT_TYPES, Checkpoint
from outlast.engine.ids import new_id
from outlast.engine.session import Session
from outlast.errors import InvalidInput
from outlast.store.base import Claimed, NewCheckpoint


def add(session: Session, claimed: Claimed, type: str, data: Any, metadata: Any) -> Checkpoint:
    """Append one checkpoint; a stale lease writes nothing."""
    session.refuse_strangers(claimed.task_id)
    new = NewCheckpoint(
        new_id(),
        checked_type(type),
        codec.encode(data, "checkpoint data"),
        None if metadata is None else codec.encode(metadata, "checkpoint metadata"),
    )
    return session.store.add_checkpoint(claimed.grant, claimed.task_id, new, session.now())


def checked_type(type: str) -> str:
    """One of the eight types."""
    if type not in CHECKPOINT_TYPES:
        raise InvalidInput(
            f"a checkpoint's type is one of {', '.join(CHECKPOINT_TYPES)}, not {type!r}"
        )
    return type
