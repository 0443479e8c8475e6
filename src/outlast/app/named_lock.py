"""A named lock in the hands of its user: taken, renewed, given back, and known to be lost."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self

from outlast.app.lock_renewal import hand_out_lock, keeper_of
from outlast.domain.duration import Duration, duration_ms
from outlast.domain.locks import Locked, LockGrant, LockInfo, LockRequest, LockState
from outlast.domain.names import checked_name
from outlast.domain.task import utc
from outlast.errors import InvalidInput, LockHeld, LockLost, OutlastError
from outlast.logs import about
from outlast.store.change_watch import ChangeWatch
from outlast.store.session import Session


class Wish(NamedTuple):
    """What somebody wants: which lock, under which name, for how long, and for how long to wait."""

    name: str
    holder: str
    ttl_ms: int
    wait_seconds: float


def wish_for(name: str, ttl: Duration, wait: Duration | None, holder: str | None) -> Wish:
    """A checked wish; whoever gives no name of its own goes by its process."""
    ttl_ms = duration_ms(ttl, "ttl")
    if ttl_ms == 0:
        raise InvalidInput("ttl must be longer than nothing")
    return Wish(
        checked_name(name, "lock"),
        _this_process() if holder is None else checked_name(holder, "holder"),
        ttl_ms,
        0.0 if wait is None else duration_ms(wait, "wait") / 1000,
    )


def _this_process() -> str:
    # Programs that never open a store need no sockets.
    import socket

    return f"{socket.gethostname()}-{os.getpid()}"


class LockWatch(ChangeWatch):
    """Waiting for a lock: it may also become free because its time passes or its holder dies."""

    def _next_event_seconds(self, now: object) -> float:
        """The time of a lock is known once it was looked at."""
        return float("inf")

    def look_again(self, in_the_way: LockInfo) -> None:
        """Look at the latest when what stood in the way has run out."""
        self.look_within(max(in_the_way.left_ms, 0) / 1000)


class NamedLock:
    """One holder's grip on a lock. Asking for it again while it is held renews it, nothing more.

    As a context manager it renews itself until the block ends; two blocks of one object exclude
    each other as those of two objects do. Taken by hand it lasts its time, unless it is extended.
    """

    def __init__(self, serve: Callable[[], Session], wish: Wish) -> None:
        self._serve = serve
        self.wish = wish
        self._mutex = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._inside = threading.Lock()
        self._session: Session | None = None
        self._grant: LockGrant | None = None
        self._expires_at_ms: int | None = None

    def __repr__(self) -> str:
        """Names the lock, and the token if it was handed out."""
        held = "not held" if self._grant is None else f"token {self._grant.token}"
        return f"<NamedLock {self.name!r}, {held}>"

    @property
    def name(self) -> str:
        """The lock's name."""
        return self.wish.name

    @property
    def token(self) -> int | None:
        """The fencing token: higher than that of any earlier grant; None when there is none."""
        return None if self._grant is None else self._grant.token

    @property
    def expires_at(self) -> datetime | None:
        """When the lock ends unless it is extended, as far as this object knows."""
        return utc(self._expires_at_ms)

    def acquire(self) -> bool:
        """Take the lock, or renew it if this object has it; False when another keeps it."""
        return self._obtain(in_block=False) is None

    def release(self) -> bool:
        """Give it back; False when it was not held any more, and nothing changes then."""
        if self._pid != os.getpid():
            # What was inherited is the parent's, down to a mutex that may be locked.
            return False
        with self._mutex:
            grant, self._grant = self._grant, None
        session = self._session
        if grant is None or session is None or self._is_over(session):
            return False
        keeper_of(session).let_go(grant)
        try:
            (was_held,) = session.store.locks.give_back([grant], session.now(), session.now)
        except BaseException:
            # It may be held still, and can be given back once more.
            self._grant = grant
            raise
        with session.mutex:
            session.locks.discard(grant)
        self._expires_at_ms = None
        return was_held

    def extend(self, seconds: Duration) -> bool:
        """Hold it for so long from now, if that is later; False when it is not held any more."""
        ttl_ms, grant, session = duration_ms(seconds, "seconds"), self._grant, self._session
        if grant is None or session is None or self._is_over(session):
            return False
        (ends_at_ms,) = session.store.locks.extend([(grant, ttl_ms)], session.now(), session.now)
        self._hear(ends_at_ms)
        return ends_at_ms is not None

    def check(self) -> None:
        """Raise LockLost unless the lock is held by this object at this moment."""
        grant, session = self._grant, self._session
        if grant is None or session is None or self._is_over(session):
            raise LockLost(self.name, self._why_over())
        if not session.store.locks.is_held(grant, session.now()):
            raise LockLost(self.name)

    def __enter__(self) -> Self:
        """Take the lock, waiting for it if that was asked for, and renew it; LockHeld if not."""
        in_the_way = self._obtain(in_block=True)
        if in_the_way is not None:
            raise self.refusal(in_the_way)
        self.begin_block()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back; LockLost if it was lost meanwhile, unless the block has its own error."""
        try:
            was_held = self.leave_block()
        except OutlastError as trouble:
            self.end_badly(trouble, error)
            return
        if not was_held:
            self.end_badly(self.loss(), error)

    # What both ways of waiting are made of

    def refusal(self, in_the_way: LockInfo) -> LockHeld:
        """The error of one who would not wait, or has waited long enough."""
        refused = held_by_another(in_the_way)
        return refused.after_waiting() if self.wish.wait_seconds else refused

    def loss(self) -> LockLost:
        """The error of one whose lock was lost before the end of its block."""
        return LockLost(self.name, self._why_over() or " at the end of its block")

    def end_badly(self, trouble: OutlastError, error: BaseException | None) -> None:
        """Raise what went wrong with the lock; a block's own error comes first and notes it."""
        if error is None:
            raise trouble
        error.add_note(str(trouble))
        session = self._session
        if session is not None:
            session.log.warning("%s", trouble, extra=about(lock=self.name))

    def _obtain(self, in_block: bool) -> LockInfo | None:
        """Get hold of it, waiting as long as was wished; else what stood in the way."""
        in_the_way = self.try_once(in_block)
        if in_the_way is None or not self.wish.wait_seconds:
            return in_the_way
        session = self._serve()
        watch = self.watch(session)
        with closing(session.store.lock_listener()) as listener:
            while True:
                watch.begin()
                in_the_way = self.try_once(in_block, looks_first=True)
                if in_the_way is None or watch.is_over:
                    return in_the_way
                watch.look_again(in_the_way)
                while (pause := watch.pause_seconds()) > 0 and not listener.wait(pause):
                    pass

    def watch(self, session: Session) -> LockWatch:
        """A watch for this lock."""
        return LockWatch(session.store, self.wish.wait_seconds, session)

    def try_once(self, in_block: bool, looks_first: bool = False) -> LockInfo | None:
        """Ask for it once; what stands in the way, or None if it is ours now.

        One who asks again looks first, so that it never stands in a writer's way for nothing.
        """
        session = self._serve()
        self._leave_the_parents_behind()
        inside = self._inside
        if in_block and not inside.acquire(blocking=False):
            # The other block may be about to end, and the lock be free in the store already.
            return self._seen(session) or self._stand_in(session)
        in_the_way: LockInfo | None = None
        is_ours = False
        try:
            if looks_first:
                in_the_way = self._seen(session)
                if in_the_way is not None and in_the_way.state is not LockState.HELD:
                    in_the_way = None
            if in_the_way is None:
                in_the_way = self._ask(session)
            is_ours = in_the_way is None
        finally:
            if in_block and not is_ours:
                inside.release()
        return in_the_way

    def _seen(self, session: Session) -> LockInfo | None:
        return session.store.locks.get(self.name, session.now(), session.settings.patience)

    def _stand_in(self, session: Session) -> LockInfo:
        now = session.now()
        at = utc(now.utc_ms)
        assert at is not None
        return LockInfo(self.name, self.wish.holder, 0, at, at, 0, LockState.HELD, os.getpid())

    def _ask(self, session: Session) -> LockInfo | None:
        """Ask the store; if the lock belongs to one that is gone, free it and ask once more."""
        own = self._grant if self._session is session else None
        request = LockRequest(self.name, self.wish.holder, self.wish.ttl_ms, own)
        store = session.store
        answer = store.locks.acquire(request, session.now(), session.now)
        if isinstance(answer, LockInfo) and store.locks.free_dead(
            session.now(), session.settings.patience
        ):
            answer = store.locks.acquire(request, session.now(), session.now)
        if isinstance(answer, LockInfo):
            return answer
        self._take(session, answer)
        return None

    def _take(self, session: Session, locked: Locked) -> None:
        hand_out_lock(session, locked.grant)
        with self._mutex:
            if self._grant is not None and self._grant != locked.grant:
                session.locks.discard(self._grant)
            self._session, self._grant = session, locked.grant
            self._expires_at_ms = locked.expires_at_ms

    def renew_by_itself(self) -> None:
        """Renew the lock until it is let go or lost."""
        grant, session = self._grant, self._session
        if grant is not None and session is not None:
            keeper_of(session).keep(grant, self.wish.ttl_ms, self._hear)

    def begin_block(self) -> None:
        """Renew it from now on; one who is interrupted here is not inside."""
        try:
            self.renew_by_itself()
        except BaseException:
            self.leave_block()
            raise

    def leave_block(self) -> bool:
        """Give it back at the end of a block; False when it was lost."""
        try:
            return self.release()
        finally:
            self._step_outside()

    def undo(self, in_block: bool, token_before: int | None) -> None:
        """Give back what a request brought that nobody waits for; what was held before it stays."""
        try:
            if self.token != token_before:
                self.release()
        finally:
            if in_block:
                self._step_outside()

    def _step_outside(self) -> None:
        """A forked child may leave a block that it never entered."""
        if self._pid == os.getpid() and self._inside.locked():
            self._inside.release()

    def _hear(self, ends_at_ms: int | None) -> None:
        """When it ends now; one that was lost has ended already."""
        with self._mutex:
            if self._grant is not None and ends_at_ms is not None:
                self._expires_at_ms = ends_at_ms

    def _is_over(self, session: Session) -> bool:
        """A grant works only in the process, and for the opening, that it was handed to."""
        return session.pid != os.getpid() or session.ended

    def _why_over(self) -> str:
        session = self._session
        if session is not None and session.pid != os.getpid():
            return ": it belongs to the process that forked this one"
        if session is not None and session.ended:
            return ": its Outlast was closed, which gave it back"
        return ""

    def _leave_the_parents_behind(self) -> None:
        if self._pid != os.getpid():
            self._mutex = threading.Lock()
            self._reset()


def held_by_another(in_the_way: LockInfo) -> LockHeld:
    """The error of one who would not wait."""
    return LockHeld(in_the_way.name, in_the_way.holder, in_the_way.expires_at)
