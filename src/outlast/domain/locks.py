"""Named locks as their users see them: who holds one, until when, and what is to be thought of it.

A lock is held from the moment it is taken until exactly the moment it ends, and free from then on.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outlast.domain.record import record

DEFAULT_LOCK = "default"
"""The seed's processing lock: the one that is meant when none is named."""


class LockState(StrEnum):
    """How a lock is: in somebody's hands, past its time, or left behind by a dead process.

    Whoever asks for a stale or an orphaned lock gets it.
    """

    HELD = "held"
    STALE = "stale"
    ORPHANED = "orphaned"


@record(frozen=True, slots=True)
class LockInfo:
    """One lock as it was at the moment of reading.

    `task_id` is the task whose lease it goes with, if it goes with one; `left_ms` is how long it
    was still to be held then, and 0 or less once its time has passed.
    """

    name: str
    holder: str
    token: int
    acquired_at: datetime
    expires_at: datetime
    left_ms: int
    state: LockState
    pid: int | None = None
    host: str | None = None
    task_id: str | None = None

    @property
    def is_stale(self) -> bool:
        """Whether its time has passed."""
        return self.state is LockState.STALE


def judge_lock(left_ms: int, holder_is_dead: bool) -> LockState:
    """Time comes first: a lock whose time has passed is stale, whatever became of its holder."""
    if left_ms <= 0:
        return LockState.STALE
    return LockState.ORPHANED if holder_is_dead else LockState.HELD


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
