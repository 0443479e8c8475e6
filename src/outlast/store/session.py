"""One Outlast object's opening of a store: what it handed out, when it last healed, its process."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from outlast.clock import Clock, Instant
from outlast.domain.lifecycle import RecoveryAction
from outlast.domain.locks import LockGrant
from outlast.domain.recovery import RecoveryReport
from outlast.errors import LeaseInherited, LeaseLost
from outlast.logs import Log
from outlast.settings import Settings
from outlast.store.records import Batch, Claimed, Grant, RecoveryPolicy

if TYPE_CHECKING:
    from outlast.store.store import Store


def _random() -> Callable[[], float]:
    # Only who opens a store needs it.
    from random import random

    return random


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """Everything the verbs of the engine need, passed along instead of looked up."""

    store: "Store"
    clock: Clock
    settings: Settings
    log: Log
    pid: int = field(default_factory=os.getpid)
    held: dict[Grant, tuple[str, str]] = field(default_factory=dict)
    unstarted: set[Grant] = field(default_factory=set)
    workers: dict[str, Callable[[], None]] = field(default_factory=dict)
    locks: set[LockGrant] = field(default_factory=set)
    keeper: object = None
    """What renews those locks, once there is one."""
    subscriptions: set[Callable[[], None]] = field(default_factory=set)
    """What ends each subscription of this opening."""
    ended: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)
    jitter: Callable[[], float] = field(default_factory=_random)
    """Spreads the waits before retries, from 0 to 1."""
    tell: Callable[[Batch], None] | None = None
    """Who hears how far the recovery at opening is."""
    is_guest: bool = False
    """Whether it leaves the recovery settings of the program alone."""
    opening: RecoveryReport | None = None
    """The run that recovered at opening, if this session's did."""

    met_unfit: bool = False
    """Whether the last pass before a claim met a task that cannot be moved."""

    def now(self) -> Instant:
        """The present moment, from the injected clock."""
        return self.clock.now()

    @property
    def policy(self) -> RecoveryPolicy:
        """How this session treats orphans."""
        return policy_of(self.settings)

    def hand_out(self, claimed: Sequence[Claimed], started: bool) -> bool:
        """Remember leases, so that closing can give them back; False if it has begun to."""
        with self.mutex:
            if self.ended:
                return False
            for one in claimed:
                self.held[one.grant] = one.task_id, one.kind
            if not started:
                self.unstarted.update(one.grant for one in claimed)
            return True

    def forget(self, grants: Sequence[Grant]) -> None:
        """Leases have ended, one way or another."""
        with self.mutex:
            for grant in grants:
                self.held.pop(grant, None)
                self.unstarted.discard(grant)

    def is_over(self) -> bool:
        """Whether every lease of this opening was given back when it was closed."""
        if os.getpid() != self.pid:
            task_id, _ = next(iter(self.held.values()), ("of the parent", ""))
            raise LeaseInherited(task_id)
        return self.ended

    def refuse_strangers(self, task_id: str) -> None:
        """A lease works only in the process, and for the opening, that it was handed to."""
        if os.getpid() != self.pid:
            raise LeaseInherited(task_id)
        if self.ended:
            raise LeaseLost(task_id, ": its Outlast was closed, which put the task back")


class SessionSource(Protocol):
    """Whoever can open a store to serve when it is first needed."""

    @property
    def path(self) -> Path:
        """The store's file."""
        ...

    def serve(self) -> Session:
        """The store, opened to serve."""
        ...


def policy_of(settings: Settings) -> RecoveryPolicy:
    """How orphans are treated under these settings."""
    return RecoveryPolicy(
        RecoveryAction(settings.recovery_action),
        settings.heal_batch,
        settings.patience,
        {kind: settings.action_for(kind) for kind in settings.recovery_action_by_kind},
        settings.max_recovery_attempts,
        is_held=settings.mode == "manual",
        is_sole=settings.exclusive,
    )
