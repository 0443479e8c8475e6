"""What coroutines ask of the store: tasks, results and figures, read in threads of ours."""

from collections.abc import AsyncGenerator
from typing import Any

from outlast.app.aio.hopping import Hopping, hopping
from outlast.app.aio.results import Results
from outlast.app.app import Outlast
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import Status
from outlast.domain.names import checked_id
from outlast.domain.task import Task


class AsyncReadVerbs(Hopping):
    """The verbs that read; a task that they return waits by the loop."""

    _results: Results

    async def get(self, task_id: str) -> Task:
        """One task, or TaskNotFound."""
        return (await self.in_thread(Outlast.get, task_id)).waiting_by(self.wait)

    async def wait(self, task_id: str, timeout: Duration | None = None) -> Any:
        """A task's result, once there is one; TaskFailed, TaskCancelled or TimeoutError else."""
        return await self._results.wait_for(checked_id(task_id), timeout)

    async def tasks(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """The newest tasks, from one consistent read: a hundred unless you say otherwise."""
        found = await self.in_thread(Outlast.tasks, status, queue, group, limit)
        return [task.waiting_by(self.wait) for task in found]

    async def held_by(self, worker: str) -> list[Task]:
        """The tasks that workers of this name hold now."""
        found = await self.in_thread(Outlast.held_by, worker)
        return [task.waiting_by(self.wait) for task in found]

    async def snapshot(
        self,
        status: Status | str | None = None,
        queue: str | None = None,
        group: str | None = None,
    ) -> AsyncGenerator[Task, None]:
        """Every task as it is now, newest first, one by one, whatever is written meanwhile.

        Until it is read to its end or closed, the log cannot be emptied: do not dwell on it.
        """
        found = await self.in_thread(Outlast.snapshot, status, queue, group)
        try:
            while tasks := await self._hop.to_its_end(found.more):
                for task in tasks:
                    yield task.waiting_by(self.wait)
        finally:
            await self._hop.to_its_end(found.close)

    counts = hopping(Outlast.counts)
    backlog = hopping(Outlast.backlog)
    stats = hopping(Outlast.stats)
    leases = hopping(Outlast.leases)
    paused_queues = hopping(Outlast.paused_queues)
    ids = hopping(Outlast.ids)
    metrics = hopping(Outlast.metrics)
    workers = hopping(Outlast.workers)
    is_alive = hopping(Outlast.is_alive)
    stale_workers = hopping(Outlast.stale_workers)
    group = hopping(Outlast.group)
    history = hopping(Outlast.history)
    why = hopping(Outlast.why)
    checkpoints = hopping(Outlast.checkpoints)
    latest_checkpoint = hopping(Outlast.latest_checkpoint)
    checkpoint_counts = hopping(Outlast.checkpoint_counts)
    keys = hopping(Outlast.keys)
    schema = hopping(Outlast.schema)
    events = hopping(Outlast.events)
    newest_events = hopping(Outlast.newest_events)
    subscribers = hopping(Outlast.subscribers)
    locks = hopping(Outlast.locks)
    current_lock = hopping(Outlast.current_lock)
    is_lock_stale = hopping(Outlast.is_lock_stale)
