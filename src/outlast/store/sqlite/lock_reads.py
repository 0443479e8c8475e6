"""What can be asked of named locks without opening the store to serve."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from outlast.clock import Instant
from outlast.domain.locks import LockInfo, LockState
from outlast.domain.orphans import Patience
from outlast.store.locking import LockGrant
from outlast.store.ops import locks
from outlast.store.ops.lock_recovery import Looker
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.transaction import Transaction
from outlast.store.sqlite.wakeups.listener import WAITING_FOR_LOCKS, Waiter
from outlast.store.sqlite.wakeups.notify import Wakeups

T = TypeVar("T")


class Reading(Protocol):
    """What the questions below are asked of."""

    _folder: SideFolder
    _wakeups: Wakeups

    def _read(self, context: str, query: Callable[[Transaction], T]) -> T: ...
    def _looker(self, now: Instant, patience: Patience) -> Looker: ...
    def incarnation_id(self) -> str:
        """This process's own incarnation, or nothing while it holds nothing."""
        ...


class LockReading:
    """The questions about named locks, for a store that can be read."""

    def _looker(self: Reading, now: Instant, patience: Patience) -> Looker:
        return Looker(self._folder, self.incarnation_id(), now, patience)

    def locks(self: Reading, now: Instant, patience: Patience) -> list[LockInfo]:
        """The locks that were not given back, by name, each judged now."""
        looked = self._read("looking at locks", self._looker(now, patience).look)
        return [one.info(now, looked.dead_incarnations) for one in looked.rows]

    def lock(self: Reading, name: str, now: Instant, patience: Patience) -> LockInfo | None:
        """One of them; None if nobody has it."""
        looked = self._read("looking at locks", self._looker(now, patience).look)
        named = (one for one in looked.rows if one.name == name)
        return next((one.info(now, looked.dead_incarnations) for one in named), None)

    def lock_is_held(self: Reading, grant: LockGrant, now: Instant) -> bool:
        """Whether a lock is still held as this grant says."""
        found = self._read("looking at locks", lambda tx: locks.lock_named(tx, grant.name))
        return (
            found is not None
            and (found.holder, found.token) == (grant.holder, grant.token)
            and found.info(now).state is LockState.HELD
        )

    def locks_to_free(self: Reading, now: Instant, patience: Patience) -> int:
        """How many locks have run out, or belong to the dead."""
        return self._read("looking at locks", self._looker(now, patience).look).to_free(now)

    def ear_for_locks(self: Reading) -> Waiter:
        """Listen for locks that become free."""
        return self._wakeups.waiter(WAITING_FOR_LOCKS)
