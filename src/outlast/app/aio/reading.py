"""What coroutines ask of the store: tasks, results and figures, read in threads of ours."""

from collections.abc import AsyncGenerator
from typing import Any

from outlast.app.aio.in_thread import InThread, in_thread
from outlast.app.aio.results import Results
from outlast.app.app import Outlast
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import Status
from outlast.domain.names import checked_id
from outlast.domain.task import Task


class AsyncReadVerbs(InThread):
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
            while tasks := await self._pool.to_its_end(found.more):
                for task in tasks:
                    yield task.waiting_by(self.wait)
        finally:
            await self._pool.to_its_end(found.close)

    counts = in_thread(Outlast.counts)
    backlog = in_thread(Outlast.backlog)
    stats = in_thread(Outlast.stats)
    leases = in_thread(Outlast.leases)
    paused_queues = in_thread(Outlast.paused_queues)
    ids = in_thread(Outlast.ids)
    metrics = in_thread(Outlast.metrics)
    workers = in_thread(Outlast.workers)
    is_alive = in_thread(Outlast.is_alive)
    stale_workers = in_thread(Outlast.stale_workers)
    group = in_thread(Outlast.group)
    history = in_thread(Outlast.history)
    why = in_thread(Outlast.why)
    checkpoints = in_thread(Outlast.checkpoints)
    latest_checkpoint = in_thread(Outlast.latest_checkpoint)
    checkpoint_counts = in_thread(Outlast.checkpoint_counts)
    keys = in_thread(Outlast.keys)
    schema = in_thread(Outlast.schema)
    events = in_thread(Outlast.events)
    newest_events = in_thread(Outlast.newest_events)
    subscribers = in_thread(Outlast.subscribers)
    locks = in_thread(Outlast.locks)
    current_lock = in_thread(Outlast.current_lock)
    is_lock_stale = in_thread(Outlast.is_lock_stale)
