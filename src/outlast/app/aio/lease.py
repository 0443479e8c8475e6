"""A lease in the hands of a coroutine: its writes await the group commit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.lease import Lease
from outlast.domain.duration import Duration
from outlast.domain.lifecycle import Parked
from outlast.domain.task import Checkpoint
from outlast.store.records import Statement
from outlast.tasks import checkpoint, settle


class AsyncLease:
    """Time-limited ownership of one task."""

    __slots__ = ("_lease", "_pool")

    def __init__(self, lease: Lease, pool: ThreadPool) -> None:
        self._lease = lease
        self._pool = pool

    def __repr__(self) -> str:
        """Names the task and never its payload."""
        return repr(self._lease)

    @property
    def lease(self) -> Lease:
        """The same lease for threads."""
        return self._lease

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._lease.task_id

    @property
    def token(self) -> int:
        """The fencing token: higher than that of any earlier lease on this task."""
        return self._lease.token

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self._lease.kind

    @property
    def queue(self) -> str:
        """The queue the task came from."""
        return self._lease.queue

    @property
    def group(self) -> str | None:
        """The task's group."""
        return self._lease.group

    @property
    def attempt(self) -> int:
        """Which execution of the task this is, from 1."""
        return self._lease.attempt

    @property
    def lease_ms(self) -> int:
        """How far each renewal pushes the lease out."""
        return self._lease.lease_ms

    @property
    def expires_at(self) -> datetime | None:
        """When the lease runs out unless it is renewed, as far as this object knows."""
        return self._lease.expires_at

    @property
    def payload(self) -> Any:
        """The task's payload, decoded afresh at each access."""
        return self._lease.payload

    async def start(self) -> None:
        """Note that the work of a prefetched task begins now, so that a crash is charged to it."""
        await self._pool.to_its_end(self._lease.start)

    async def renew(self, *, stage: str | None = None) -> None:
        """Push the lease out by its length from now; LeaseLost if it is no longer ours."""
        await self._lease.renew_soon(stage)

    async def complete(self, result: Any = None, also: Sequence[Statement] = ()) -> bool:
        """Store the result and finish the task; `also` commits together with it."""
        return await settle.complete(self._lease.session, self._lease.claimed, result, also)

    async def fail(
        self, error: str | BaseException, retry: bool = True, delay: Duration | None = None
    ) -> bool:
        """Record a failure: back for another try while the budget lasts, else failed for good."""
        lease = self._lease
        return await settle.fail(lease.session, lease.claimed, error, retry, delay)

    async def release(self, delay: Duration | None = None) -> bool:
        """Hand the task back unspent, perhaps not before some time has passed."""
        return await settle.release(self._lease.session, self._lease.claimed, delay)

    async def park(self, reason: Parked | str, delay: Duration | None = None) -> bool:
        """Hand the task back to wait for something; unspent, and not claimable meanwhile."""
        return await settle.park(self._lease.session, self._lease.claimed, reason, delay)

    async def checkpoint(self, type: str, data: Any, metadata: Any = None) -> Checkpoint:
        """Append a record of progress that survives a crash."""
        lease = self._lease
        return await checkpoint.add(lease.session, lease.claimed, type, data, metadata)
