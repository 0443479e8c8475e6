"""Named locks for coroutines: waiting leaves the loop free, renewal needs none."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

from outlast.app.aio.lease import AsyncLease
from outlast.app.aio.thread_pool import ThreadPool
from outlast.app.app import Outlast
from outlast.app.handle import StoreHandle
from outlast.app.lease import Lease
from outlast.app.locks import claim_when_free, heal_and_claim, request_with_lock
from outlast.app.named_lock import NamedLock
from outlast.app.waiting import work_watch
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.locks import DEFAULT_LOCK, LockInfo
from outlast.errors import LockHeld, OutlastError
from outlast.store.records import ClaimRequest
from outlast.store.session import Session
from outlast.tasks.settle import give_back

Claims = Callable[[Session, ClaimRequest, Duration | None], list[Lease]]


class AsyncNamedLock:
    """One holder's grip on a lock. Asking for it again while it is held renews it, nothing more.

    As a context manager it renews itself until the block ends; two blocks of one object exclude
    each other as those of two objects do. Taken by hand it lasts its time, unless it is extended.
    """

    def __init__(self, lock: NamedLock, handle: StoreHandle, pool: ThreadPool) -> None:
        self._lock = lock
        self._handle = handle
        self._pool = pool

    def __repr__(self) -> str:
        """Names the lock, and the token if it was handed out."""
        return repr(self._lock)

    @property
    def lock(self) -> NamedLock:
        """The same lock for threads."""
        return self._lock

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._lock.name

    @property
    def token(self) -> int | None:
        """The fencing token: higher than that of any earlier grant; None when there is none."""
        return self._lock.token

    @property
    def expires_at(self) -> datetime | None:
        """When the lock ends unless it is extended, as far as this object knows."""
        return self._lock.expires_at

    async def acquire(self) -> bool:
        """Take the lock, or renew it if this object has it; False when another keeps it."""
        return await self._obtain(in_block=False) is None

    async def release(self) -> bool:
        """Give it back; False when it was not held any more, and nothing changes then."""
        return await self._pool.to_its_end(self._lock.release)

    async def extend(self, seconds: Duration) -> bool:
        """Hold it for so long from now, if that is later; False when it is not held any more."""
        return await self._pool.to_its_end(self._lock.extend, seconds)

    async def check(self) -> None:
        """Raise LockLost unless the lock is held by this object at this moment."""
        await self._pool.to_its_end(self._lock.check)

    async def __aenter__(self) -> Self:
        """Take the lock, waiting for it if that was asked for, and renew it; LockHeld if not."""
        in_the_way = await self._obtain(in_block=True)
        if in_the_way is not None:
            raise self._lock.refusal(in_the_way)
        self._lock.begin_block()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back; LockLost if it was lost meanwhile, unless the block has its own error."""
        try:
            was_held = await self._pool.to_its_end(self._lock.leave_block)
        except OutlastError as trouble:
            self._lock.end_badly(trouble, error)
            return
        if not was_held:
            self._lock.end_badly(self._lock.loss(), error)

    async def _obtain(self, in_block: bool) -> LockInfo | None:
        in_the_way = await self._try_once(in_block)
        if in_the_way is None or not self._lock.wish.wait_seconds:
            return in_the_way
        session = self._handle.serve()
        watch = self._lock.watch(session)
        with closing(session.store.lock_listener()) as listener:
            while True:
                await self._pool(watch.begin)
                in_the_way = await self._try_once(in_block, looks_first=True)
                if in_the_way is None or watch.is_over:
                    return in_the_way
                watch.look_again(in_the_way)
                while (pause := await self._pool(watch.pause_seconds)) > 0:
                    if await listener.wait_async(pause):
                        break

    async def _try_once(self, in_block: bool, looks_first: bool = False) -> LockInfo | None:
        """A lock that a cancelled call was handed is given back."""
        undo = partial(self._lock.undo, in_block, self._lock.token)
        return await self._pool.undone_if_cancelled(
            partial(self._lock.try_once, in_block, looks_first),
            lambda in_the_way: in_the_way or undo(),
        )


class AsyncLockVerbs:
    """The part of an AsyncOutlast that named locks belong to."""

    _app: Outlast
    _handle: StoreHandle
    _pool: ThreadPool

    def lock(
        self,
        name: str = DEFAULT_LOCK,
        ttl: Duration | None = None,
        wait: Duration | None = None,
        *,
        holder: str | None = None,
    ) -> AsyncNamedLock:
        """A lock to be taken by `with`, which renews it, or by hand; `holder` is who is told of.

        It lasts `ttl` unless it is renewed: 300 s, or as `lock_ttl_seconds` says.
        """
        return AsyncNamedLock(
            self._app.lock(name, ttl, wait, holder=holder), self._handle, self._pool
        )

    async def next_with_lock(
        self,
        agent: str,
        *,
        lock: str = DEFAULT_LOCK,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> AsyncLease | None:
        """Heal, take a lock and claim one task with it, all or nothing: one at a time.

        The lock is held as long as the lease, and ends with it however that ends. None when
        nothing is eligible, LockHeld while another works under the lock; `wait` waits for both.
        """
        timeout_seconds = 0.0 if wait is None else duration_ms(wait, "wait") / 1000
        request = request_with_lock(agent, lock, queue, kinds=kinds, group=group)
        session = await self._pool(self._handle.serve)

        async def claimed(verb: Claims) -> AsyncLease | None:
            found = await self._pool.undone_if_cancelled(
                partial(verb, session, request, lease),
                lambda leases: give_back(session, [one.claimed for one in leases]),
            )
            return AsyncLease(found[0], self._pool) if found else None

        if not timeout_seconds:
            return await claimed(heal_and_claim)
        watch = work_watch(session, timeout_seconds)
        with closing(session.store.work_listener()) as listener:
            while True:
                await self._pool(watch.begin)
                try:
                    found = await claimed(claim_when_free)
                except LockHeld as refused:
                    if watch.is_over:
                        raise refused.after_waiting() from None
                    found = None
                if found is not None or watch.is_over:
                    return found
                while (pause := await self._pool(watch.pause_seconds)) > 0:
                    if await listener.wait_async(pause):
                        break
