"""The part of the Store protocol that named locks need, and the records that travel through it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from outlast.clock import Instant
from outlast.domain.locks import LockInfo
from outlast.domain.orphans import Patience
from outlast.store.future import Ear


class LockGrant(NamedTuple):
    """Proof that a lock was handed out: the lock, the holder's row, and the fencing token."""

    name: str
    holder: int
    token: int


class LockRequest(NamedTuple):
    """What somebody wants: a lock, under a name of its own, for so long; renewed if it has it."""

    name: str
    worker: str
    ttl_ms: int
    own: LockGrant | None = None


class Locked(NamedTuple):
    """A lock that was handed out, and when it ends unless it is extended."""

    grant: LockGrant
    expires_at_ms: int


class LockReads(Protocol):
    """What can be asked of named locks."""

    def locks(self, now: Instant, patience: Patience) -> list[LockInfo]:
        """The locks that were not given back, by name, each judged now."""
        ...

    def lock(self, name: str, now: Instant, patience: Patience) -> LockInfo | None:
        """One of them; None if nobody has it."""
        ...

    def lock_is_held(self, grant: LockGrant, now: Instant) -> bool:
        """Whether a lock is still held as this grant says."""
        ...

    def locks_to_free(self, now: Instant, patience: Patience) -> int:
        """How many locks have run out, or belong to the dead."""
        ...

    def ear_for_locks(self) -> Ear:
        """Listen for locks that become free; whoever looks after this misses no hint."""
        ...


class StoreLocks(Protocol):
    """What can be done with named locks. Each verb is one durable transaction."""

    def acquire_lock(
        self, request: LockRequest, now: Instant, clock: Callable[[], Instant] | None = None
    ) -> Locked | LockInfo:
        """Take a lock that is free, or renew one's own; else what stands in the way."""
        ...

    def extend_locks(
        self,
        lengths: Sequence[tuple[LockGrant, int]],
        now: Instant,
        clock: Callable[[], Instant] | None = None,
    ) -> list[int | None]:
        """Hold locks for so many milliseconds from now, and for no shorter time than before.

        When each of them ends, in milliseconds UTC; None for each that is not held any more.
        """
        ...

    def give_back_locks(
        self,
        grants: Sequence[LockGrant],
        now: Instant,
        clock: Callable[[], Instant] | None = None,
    ) -> list[bool]:
        """Free locks before their time; False for each that was not held any more."""
        ...

    def free_dead_locks(self, now: Instant, patience: Patience) -> int:
        """Free the locks that have run out or whose holders are dead; how many."""
        ...

    def free_lock_by_force(
        self, name: str, by: str, source: str, now: Instant, patience: Patience
    ) -> LockInfo | None:
        """Free a lock whoever holds it, on an operator's word; what it was, None if it was free."""
        ...
