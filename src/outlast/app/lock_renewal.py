"""Renewing named locks while the blocks they guard run; giving them back when the store is closed.

One thread for all locks of an opening, there only while there is something to keep.
"""

import threading
import time
from collections.abc import Callable

from outlast.errors import StoreError
from outlast.logs import about
from outlast.store.locking import LockGrant
from outlast.store.session import Session

RENEWALS_PER_TTL = 3
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
IDLE_SECONDS = 5.0

Hears = Callable[[int | None], None]


class Kept:
    """A lock under renewal: how it is renewed and when next, and who hears when it ends then."""

    def __init__(self, ttl_ms: int, beat_ms: int, hears: Hears) -> None:
        self.ttl_ms = ttl_ms
        self.hears = hears
        # A process that holds nothing but a lock has no other sign of life to give.
        self._interval_seconds = min(ttl_ms / RENEWALS_PER_TTL, beat_ms) / 1000
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.due_at = time.monotonic() + self._interval_seconds

    def is_renewed(self, began_at: float) -> None:
        """It was; the next one is due an interval later."""
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.due_at = began_at + self._interval_seconds

    def failed(self, began_at: float) -> None:
        """It may have been, or not: tried again sooner than the next one would be due."""
        self.due_at = began_at + min(self._pause_seconds, self._interval_seconds)
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)


class Keeper:
    """Renews the locks of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[LockGrant, Kept] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @property
    def _is_over(self) -> bool:
        return self._is_stopped or self._session.ended

    def keep(self, grant: LockGrant, ttl_ms: int, hears: Hears) -> None:
        """Renew a lock from now on; `hears` is told when it ends then, or None if it is lost."""
        with self._changed:
            if self._is_over:
                return
            self._kept[grant] = Kept(ttl_ms, self._session.settings.heartbeat.interval_ms, hears)
            if self._thread is None:
                self._start()
            else:
                self._changed.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="outlast-locks", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._session.log.warning("locks are not renewed by themselves: %s", error)
            return
        self._thread = thread

    def let_go(self, grant: LockGrant) -> bool:
        """Renew it no more; False if that was said already."""
        with self._changed:
            return self._kept.pop(grant, None) is not None

    def stop(self) -> None:
        """Renew nothing more, nor anything that comes too late."""
        with self._changed:
            self._is_stopped = True
            self._kept.clear()
            self._changed.notify()

    def _run(self) -> None:
        while due := self._next_due():
            self._renew(due)

    def _next_due(self) -> dict[LockGrant, Kept]:
        """Wait for what is due; nothing when the thread may end, since nobody needs it."""
        with self._changed:
            idle_at = time.monotonic() + IDLE_SECONDS
            while True:
                now = time.monotonic()
                if self._is_over:
                    self._kept.clear()
                due = {grant: one for grant, one in self._kept.items() if one.due_at <= now}
                is_idle = not self._kept and (now >= idle_at or self._is_over)
                if due or is_idle:
                    break
                next_at = min([one.due_at for one in self._kept.values()] or [idle_at])
                self._changed.wait(next_at - now)
            if not due:
                self._thread = None
            return due

    def _renew(self, due: dict[LockGrant, Kept]) -> None:
        session, began_at = self._session, time.monotonic()
        lengths = [(grant, one.ttl_ms) for grant, one in due.items()]
        try:
            ends = session.store.extend_locks(lengths, session.now(), session.now)
        except Exception as error:
            # Whatever it was, it must not be the end of all renewing.
            session.log.warning("renewing %d locks failed and is tried again: %s", len(due), error)
            for one in due.values():
                one.failed(began_at)
            return
        for (grant, one), ends_at_ms in zip(due.items(), ends, strict=True):
            one.is_renewed(began_at)
            # What its holder has let go meanwhile is not lost.
            if ends_at_ms is None and self.let_go(grant):
                session.log.warning(
                    "lock %s was lost before the end of its block; others may have it", grant.name,
                    extra=about(lock=grant.name),
                )  # fmt: skip
            one.hears(ends_at_ms)


def keeper_of(session: Session) -> Keeper:
    """The keeper of a session, made when it is first needed."""
    with session.mutex:
        if session.keeper is None:
            session.keeper = Keeper(session)
        keeper = session.keeper
        assert isinstance(keeper, Keeper)
        return keeper


def hand_out_lock(session: Session, grant: LockGrant) -> None:
    """Remember a lock, so that closing gives it back; one that comes too late goes back now."""
    with session.mutex:
        if not session.ended:
            session.locks.add(grant)
            return
    session.store.give_back_locks([grant], session.now(), session.now)
    raise StoreError("this store was closed while a lock was waited for; open it again")


def let_all_go(session: Session) -> None:
    """Give back every lock that a session still holds."""
    with session.mutex:
        grants, session.locks = list(session.locks), set()
        keeper = session.keeper
    if isinstance(keeper, Keeper):
        keeper.stop()
    if grants:
        session.store.give_back_locks(grants, session.now(), session.now)
