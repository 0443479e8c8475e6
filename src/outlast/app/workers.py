"""Signs of life by hand: a worker's own, for programs that claim without a worker of ours, and
the word of somebody who knows that another one is gone.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from outlast.app.handle import StoreHandle
from outlast.domain import codec
from outlast.domain.escaping import shown
from outlast.domain.lifecycle import OPERATOR
from outlast.domain.names import checked_flag, checked_id, checked_name
from outlast.domain.operator_acts import LIBRARY, Signature, signed
from outlast.domain.recovery import DeadWorker
from outlast.domain.worker import WorkerInfo
from outlast.errors import InvalidInput
from outlast.maintenance.recovery import dead_worker

MAX_BEAT_TASKS = 1000
MAX_PROGRESS_BYTES = 10_000


class Heartbeats(Protocol):
    """Who lives, as an `Outlast` answers it; for programs that bring their own, or a stand-in."""

    def heartbeat(self, worker: str, task_ids: Sequence[str] = (), progress: Any = None) -> None:
        """Say that a worker lives, what it is at and how far."""
        ...

    def is_alive(self, worker: str) -> bool:
        """Whether a process lives under this name and was heard of lately."""
        ...

    def stale_workers(self) -> list[WorkerInfo]:
        """Those that went silent or are gone, and that nobody has declared dead yet."""
        ...

    def mark_dead(
        self,
        incarnation: str,
        by: str | None = None,
        force: bool = False,
        source: str = LIBRARY,
    ) -> DeadWorker | None:
        """Declare one dead, and put back what it holds; None if it had ended before."""
        ...

    def workers(self, limit: int = 1000) -> list[WorkerInfo]:
        """All of them, newest first, the dead among them."""
        ...


def heartbeat(handle: StoreHandle, worker: str, task_ids: Iterable[str], progress: Any) -> None:
    """Check everything, then date the worker's row; a task that is gone does not hinder it."""
    name = checked_name(worker, "worker")
    if isinstance(task_ids, str) or not isinstance(task_ids, Iterable):
        raise InvalidInput(f"task_ids must be a list of ids, not {shown(task_ids)}")
    ids = [checked_id(one) for one in task_ids]
    if len(ids) > MAX_BEAT_TASKS:
        raise InvalidInput(f"a beat names at most {MAX_BEAT_TASKS} tasks, not {len(ids)}")
    said = None if progress is None else codec.encode(progress, "progress", MAX_PROGRESS_BYTES)
    session = handle.serve()
    session.store.workers.heartbeat(name, ids, said, session.now())


def mark_dead(
    handle: StoreHandle, incarnation: str, by: str | None, force: bool, source: str = LIBRARY
) -> DeadWorker | None:
    """Mark one dead by somebody's word, which stands in the record."""
    incarnation, force = checked_name(incarnation, "incarnation"), checked_flag(force, "force")
    signature = Signature(OPERATOR, source) if by is None else signed(by, source)
    session = handle.serve()
    store, now = session.store, session.now()
    ended = store.recovery.declare_dead(incarnation, now, session.policy, signature, force)
    return None if ended is None else dead_worker(ended)
