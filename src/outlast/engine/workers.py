"""A worker's sign of life given by hand, for programs that claim without a worker of ours."""

from collections.abc import Iterable
from typing import Any

from outlast.domain import codec
from outlast.domain.names import checked_id, checked_name
from outlast.engine.handle import StoreHandle
from outlast.errors import InvalidInput

MAX_BEAT_TASKS = 1000
MAX_PROGRESS_BYTES = 10_000


def heartbeat(handle: StoreHandle, worker: str, task_ids: Iterable[str], progress: Any) -> None:
    """Check everything, then date the worker's row; a task that is gone does not hinder it."""
    name = checked_name(worker, "worker")
    if isinstance(task_ids, str) or not isinstance(task_ids, Iterable):
        raise InvalidInput(f"task_ids must be a list of ids, not {task_ids!r}")
    ids = [checked_id(one) for one in task_ids]
    if len(ids) > MAX_BEAT_TASKS:
        raise InvalidInput(f"a beat names at most {MAX_BEAT_TASKS} tasks, not {len(ids)}")
    said = None if progress is None else codec.encode(progress, "progress", MAX_PROGRESS_BYTES)
    session = handle.serve()
    session.store.heartbeat(name, ids, said, session.now())
