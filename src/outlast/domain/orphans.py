"""Who is dead and whose tasks are orphans: the one rule of start-up, detector and claim.

The order of judgement. A lock that nobody holds means that its owner is gone, whatever else is
said. A lock that is held means that it lives; its silence only makes it stale. Where there is no
lock to ask, process id and start time decide; where they cannot be compared either, the heartbeat
does, after the threshold and a grace. A task is an orphan when nobody holds it, when its holder is
dead, or when its lease has run out, even if the holder lives: its token fences it off.
"""

from enum import StrEnum
from typing import NamedTuple


class Sign(StrEnum):
    """What the kernel says of a process, by the best witness there is."""

    LOCK_FREE = "its lock is free"
    LOCK_HELD = "its lock is held"
    PROCESS_GONE = "its process is gone"
    PROCESS_THERE = "its process is there"
    NONE = "it cannot be asked"


class Patience(NamedTuple):
    """How long silence is put up with: until it is called stale, and how much longer after that."""

    stale_ms: int
    grace_ms: int


class Liveness(StrEnum):
    """What is to be thought of a worker. Nothing is ever taken from one that is merely stale."""

    ALIVE = "alive"
    STALE = "stale"
    DEAD = "dead"


class Judgement(NamedTuple):
    """A verdict and the sign it rests on."""

    liveness: Liveness
    because: str

    @property
    def is_dead(self) -> bool:
        """Whether its tasks may be taken."""
        return self.liveness is Liveness.DEAD


_DEADLY = frozenset({Sign.LOCK_FREE, Sign.PROCESS_GONE})


def judge_worker(sign: Sign, silent_ms: int, patience: Patience) -> Judgement:
    """Alive, stale or dead, and why."""
    if sign in _DEADLY:
        return Judgement(Liveness.DEAD, sign.value)
    if sign is Sign.NONE and silent_ms > patience.stale_ms + patience.grace_ms:
        silence = f"{sign.value} and was not heard of for {silent_ms / 1000:.0f} s"
        return Judgement(Liveness.DEAD, silence)
    if silent_ms > patience.stale_ms:
        return Judgement(Liveness.STALE, f"{sign.value}, silent for {silent_ms / 1000:.0f} s")
    return Judgement(Liveness.ALIVE, sign.value)


class Orphaned(StrEnum):
    """Why a running task has nobody to run it."""

    NO_HOLDER = "no_holder"
    HOLDER_DEAD = "holder_dead"
    LEASE_RAN_OUT = "lease_ran_out"


def judge_task(holder: Judgement | None, lease_left_ms: int | None) -> Orphaned | None:
    """Why a running task is an orphan; None when it is in somebody's hands."""
    if holder is None or lease_left_ms is None:
        return Orphaned.NO_HOLDER
    if holder.is_dead:
        return Orphaned.HOLDER_DEAD
    return Orphaned.LEASE_RAN_OUT if lease_left_ms <= 0 else None
