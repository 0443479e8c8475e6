"""The verbs of an Outlast object around named locks."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from outlast.app import claim
from outlast.app.handle import StoreHandle
from outlast.app.lease import Lease
from outlast.app.named_lock import NamedLock, held_by_another, wish_for
from outlast.app.waiting import work_watch
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.locks import DEFAULT_LOCK, LockInfo, LockState
from outlast.domain.names import checked_name
from outlast.domain.operator_acts import LIBRARY
from outlast.errors import LockHeld
from outlast.logs import about
from outlast.maintenance.healing import heal_before_claim
from outlast.store.records import ClaimRequest
from outlast.store.session import Session


class LockVerbs:
    """Named locks, for whatever only one may do at a time."""

    _handle: StoreHandle

    def lock(
        self,
        name: str = DEFAULT_LOCK,
        ttl: Duration | None = None,
        wait: Duration | None = None,
        *,
        holder: str | None = None,
    ) -> NamedLock:
        """A lock to be taken by `with`, which renews it, or by hand; `holder` is who is told of.

        It lasts `ttl` unless it is renewed: 300 s, or as `lock_ttl_seconds` says.
        """
        ttl = self._handle.settings.lock_ttl_seconds if ttl is None else ttl
        return NamedLock(self._handle.serve, wish_for(name, ttl, wait, holder))

    def locks(self) -> list[LockInfo]:
        """The locks that were not given back, by name; those among them that ran out say so."""
        handle = self._handle
        return handle.look().locks.all(handle.now(), handle.settings.patience)

    def current_lock(self, name: str = DEFAULT_LOCK) -> LockInfo | None:
        """Who has a lock; None if it is free."""
        found = self._lock(name)
        return None if found is None or found.state is LockState.STALE else found

    def is_lock_stale(self, name: str = DEFAULT_LOCK) -> bool:
        """Whether a lock was not given back and its time has passed."""
        found = self._lock(name)
        return found is not None and found.state is LockState.STALE

    def _lock(self, name: str) -> LockInfo | None:
        handle, name = self._handle, checked_name(name, "lock")
        return handle.look().locks.get(name, handle.now(), handle.settings.patience)

    def next_with_lock(
        self,
        agent: str,
        *,
        lock: str = DEFAULT_LOCK,
        queue: str | Sequence[str] = "default",
        kinds: Sequence[str] | None = None,
        group: str | None = None,
        lease: Duration | None = None,
        wait: Duration | None = None,
    ) -> Lease | None:
        """Heal, take a lock and claim one task with it, all or nothing: one at a time.

        The lock is held as long as the lease, and ends with it however that ends. None when
        nothing is eligible, LockHeld while another works under the lock; `wait` waits for both.
        """
        request = request_with_lock(agent, lock, queue, kinds=kinds, group=group)
        timeout_seconds = 0.0 if wait is None else duration_ms(wait, "wait") / 1000
        return next_with_lock(self._handle.serve(), request, lease, timeout_seconds)

    def release_lock(self, name: str, *, by: str, source: str = LIBRARY) -> bool:
        """Free a lock whoever holds it, on an operator's word; False when nobody had it.

        Its holder learns of it when it next renews, checks or gives back its lock. One that goes
        with a task's lease is not looked at any more: its task goes on, so force that instead.
        """
        name, by = checked_name(name, "lock"), checked_name(by, "by")
        source = checked_name(source, "source")
        session = self._handle.serve()
        patience = session.settings.patience
        found = session.store.locks.free_by_force(name, by, source, session.now(), patience)
        if found is not None:
            session.log.info(
                "lock %s of worker %s was freed by %s before its end", name, found.holder, by,
                extra=about(lock=name, worker=found.holder),
            )  # fmt: skip
        return found is not None


def request_with_lock(
    agent: str,
    lock: str,
    queue: str | Sequence[str],
    *,
    kinds: Sequence[str] | None,
    group: str | None,
) -> ClaimRequest:
    """A checked request for one task and the lock that goes with it."""
    request = claim.request_for(agent, 1, queue, kinds=kinds, group=group)
    return replace(request, lock=checked_name(lock, "lock"))


def next_with_lock(
    session: Session, request: ClaimRequest, lease: Duration | None, timeout_seconds: float
) -> Lease | None:
    """One task with its lock, waiting for both if need be."""
    if not timeout_seconds:
        return next(iter(heal_and_claim(session, request, lease)), None)
    watch = work_watch(session, timeout_seconds)
    with closing(session.store.work_listener()) as listener:
        while True:
            watch.begin()
            claimed: list[Lease] = []
            try:
                claimed = claim_when_free(session, request, lease)
            except LockHeld as refused:
                if watch.is_over:
                    raise refused.after_waiting() from None
            if claimed or watch.is_over:
                return claimed[0] if claimed else None
            while (pause := watch.pause_seconds()) > 0 and not listener.wait(pause):
                pass


def claim_when_free(session: Session, request: ClaimRequest, lease: Duration | None) -> list[Lease]:
    """Look at the lock, then claim: one who waits never stands in a writer's way for nothing."""
    name = request.lock or DEFAULT_LOCK
    found = session.store.locks.get(name, session.now(), session.settings.patience)
    if found is not None and found.state is LockState.HELD:
        raise held_by_another(found)
    return heal_and_claim(session, request, lease)


def heal_and_claim(session: Session, request: ClaimRequest, lease: Duration | None) -> list[Lease]:
    """Claim what is there once the dead have let go of their tasks and locks."""
    heal_before_claim(session, force=True)
    return claim.claim(session, request, lease)
