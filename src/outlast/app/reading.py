"""The read verbs of an Outlast object: they open the store to look, and change nothing."""

from typing import TYPE_CHECKING, Any

from outlast.app.handle import StoreHandle
from outlast.app.snapshot import Snapshot
from outlast.app.waiting import wait_for
from outlast.app.why import why
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import RecoveryAction, Status
from outlast.domain.names import checked_id, checked_name, checked_whole
from outlast.domain.orphans import Patience
from outlast.domain.status_words import status_named
from outlast.domain.task import Checkpoint, Group, Move, Task
from outlast.domain.worker import WorkerInfo, WorkerState
from outlast.errors import GroupNotFound, InvalidInput, TaskNotFound
from outlast.store.records import KeyRecord, SchemaReport
from outlast.store.session import policy_of
from outlast.tasks import checkpoint

if TYPE_CHECKING:
    from outlast.domain.stats import Backlog, LeaseFigures, Stats

MAX_LISTED = 100_000


class ReadVerbs:
    """What can be asked of a store without opening it to serve."""

    _handle: StoreHandle

    def get(self, task_id: str) -> Task:
        """One task, or TaskNotFound."""
        found = self._handle.look().tasks.get(checked_id(task_id))
        if found is None:
            raise TaskNotFound(task_id)
        return found.waiting_by(self.wait)

    def wait(self, task_id: str, timeout: Duration | None = None) -> Any:
        """A task's result, once there is one; TaskFailed, TaskCancelled or TimeoutError else."""
        return wait_for(self._handle.look(), checked_id(task_id), timeout, self._handle.now)

    def tasks(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """The newest tasks, from one consistent read: a hundred unless you say otherwise."""
        wanted = None if status is None else status_named(status)
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        queue = None if queue is None else checked_name(queue, "queue")
        group = None if group is None else checked_name(group, "group")
        found = self._handle.look().tasks.find(wanted, queue, group, limit)
        return [task.waiting_by(self.wait) for task in found]

    def snapshot(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
    ) -> Snapshot:
        """Every task as it is now, newest first, one by one, whatever is written meanwhile.

        Until it is read to its end or closed, the log cannot be emptied: do not dwell on it.
        """
        wanted = None if status is None else status_named(status)
        queue = None if queue is None else checked_name(queue, "queue")
        group = None if group is None else checked_name(group, "group")
        return Snapshot(self._handle.look().tasks.snapshot(wanted, queue, group), self.wait)

    def held_by(self, worker: str) -> list[Task]:
        """The tasks that workers of this name hold now."""
        found = self._handle.look().tasks.held_by(checked_name(worker, "worker"))
        return [task.waiting_by(self.wait) for task in found]

    def counts(self, queue: str | None = None) -> dict[str, int]:
        """How many tasks rest in each status."""
        return self._handle.look().figures.counts(
            None if queue is None else checked_name(queue, "queue")
        )

    def backlog(self, queue: str | None = None, limit: int = MAX_LISTED) -> "Backlog":
        """What is unfinished, in all or in one queue, and which groups it belongs to."""
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        queue = None if queue is None else checked_name(queue, "queue")
        return self._handle.look().figures.backlog(queue, limit)

    def stats(self) -> "Stats":
        """Tasks by kind and status, the health of leases, the growth of checkpoints."""
        return self._handle.look().figures.stats(self._handle.now(), self._patience.stale_ms)

    def leases(self) -> "LeaseFigures":
        """How many leases are out, how many of them were not renewed lately or have run out."""
        policy = policy_of(self._handle.settings)
        return self._handle.look().figures.leases(self._handle.now(), policy)

    def paused_queues(self) -> list[str]:
        """The queues that hand out nothing, by name."""
        return self._handle.look().queues.paused()

    def ids(self, beginning: str, limit: int = 10) -> list[str]:
        """The ids of tasks that begin so, in their order."""
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        return self._handle.look().tasks.ids_beginning(checked_id(beginning), limit)

    def workers(self, limit: int = 1000) -> list[WorkerInfo]:
        """Workers, newest first, the dead among them: how each is, what it holds and serves."""
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        return self._handle.look().workers.newest(self._handle.now(), self._patience, limit)

    def is_alive(self, worker: str) -> bool:
        """Whether a process lives under this worker name and was heard of lately."""
        name = checked_name(worker, "worker")
        living = self._handle.look().workers.living(self._handle.now(), self._patience, name)
        return any(one.state is WorkerState.ALIVE for one in living)

    def stale_workers(self) -> list[WorkerInfo]:
        """Workers that went silent or are gone, at work or idle, and not declared dead yet."""
        # Whoever has not ended is among them, whatever the limit.
        found = self._handle.look().workers.newest(self._handle.now(), self._patience, limit=1)
        return [one for one in found if one.state is not WorkerState.ALIVE and one.ended_at is None]

    @property
    def _patience(self) -> Patience:
        return self._handle.settings.patience

    def group(self, group_id: str) -> Group:
        """A group's roll-up; done only when all its tasks are final."""
        found = self._handle.look().tasks.group(checked_name(group_id, "group"))
        if found is None:
            raise GroupNotFound(group_id)
        return found

    def history(self, task_id: str) -> list[Move]:
        """A task's moves, oldest first."""
        moves = self._handle.look().tasks.history(checked_id(task_id))
        if moves is None:
            raise TaskNotFound(task_id)
        return moves

    def why(self, task_id: str) -> str:
        """Why a task does not run, or what became of it, in one sentence."""
        task = self.get(task_id)
        is_spared = self._handle.settings.action_for(task.kind) is RecoveryAction.NONE
        reads, now = self._handle.look(), self._handle.now()
        return why(reads, task, now, self._patience, is_spared=is_spared)

    def checkpoints(
        self, task_id: str | None, type: str | None = None, limit: int = 10_000
    ) -> list[Checkpoint]:
        """A task's checkpoints in order; without a task, the newest of one type anywhere."""
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        return checkpoint.find(self._handle.look(), task_id, type, limit)

    def latest_checkpoint(self, task_id: str, type: str | None = None) -> Checkpoint | None:
        """The newest checkpoint of a task, perhaps of one type."""
        found = self.checkpoints(task_id, type, limit=1)
        return found[0] if found else None

    def checkpoint_counts(self, task_id: str) -> dict[str, int]:
        """How many checkpoints of each type a task has."""
        return self._handle.look().checkpoints.counts(checked_id(task_id))

    def keys(
        self,
        task_id: str | None = None,
        *,
        group: str | None = None,
        status: str | None = None,
        limit: int = 100,
    ) -> list[KeyRecord]:
        """Idempotency keys of a task, of a group, or in a status; newest first."""
        if [task_id, group, status].count(None) != 2:
            raise InvalidInput("keys takes exactly one of task_id, group and status")
        checked_name(task_id or group or status, "task_id, group or status")
        limit = checked_whole(limit, "limit", 1, MAX_LISTED)
        return self._handle.look().keys.find(task_id, group, status, limit)

    def schema(self) -> SchemaReport:
        """The schema version, the migrations applied, and every definition in the file."""
        return self._handle.look().schema()
