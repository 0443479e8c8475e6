"""Group commit by leaders and followers: who finds nobody at work leads, who comes later joins.

A lone caller commits on its own thread and pays for nothing else. Callers that arrive while a
group is being committed wait, and whoever leads next takes all of them along, so nobody waits for
more than the group under way and one that follows it. Operations that must be alone in their
transaction take turns with groups.

Leadership is a plain attribute that is set under the mutex and cleared in a `finally`. A leader
that is interrupted leaves its group behind in `_under_way`, where its own clean-up, or else the
next leader, finds it; followers look up from time to time, so a lost wake-up heals. Who is named
as the next leader may be gone or held up: whoever has waited long enough leads instead.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from threading import get_ident
from typing import Any, TypeVar

import apsw

from outlast.errors import OutlastError, QueueFull, StoreError
from outlast.store.sqlite.answers import Answers, Seat
from outlast.store.sqlite.members import may_be_a_signals
from outlast.store.sqlite.operation import Adding, Exclusive, Operation
from outlast.store.sqlite.pending import (
    DECIDED,
    NEW,
    TAKEN,
    WAITING,
    Group,
    Pending,
    Turn,
    fail_all,
)
from outlast.store.sqlite.reentry import INSIDE, is_ours, refuse_inside
from outlast.store.sqlite.succession import Leader, successor, turn_of
from outlast.store.sqlite.usher import Usher

T = TypeVar("T")

LOOK_UP_SECONDS = 0.1
LOOK_FOR_ROOM_SECONDS = 0.005


class GroupCommit:
    """Forms groups, and sees to it that every member gets an answer, whatever ends a leader."""

    def __init__(
        self,
        commit: Callable[[Group], None],
        committed: Callable[[Group], None],
        later: Callable[[Callable[[], None]], None],
        limits: tuple[int, float],
    ) -> None:
        """`committed` is called after a group, with nobody waiting for it any more; `later` runs
        something in a thread that is nobody's."""
        self._commit = commit
        self.is_inside: Callable[[], bool] = _nobody_is
        """Whether this thread is at work on the writer already, which a group would wait for."""
        self._committed = committed
        self._later = later
        self._most_waiting, self._room_timeout_seconds = limits
        self._mutex = threading.RLock()
        self.shared: deque[Pending[Any]] = deque()
        self._alone: deque[Pending[Any]] = deque()
        self.leader: Leader | None = None
        """Who commits at the moment, or is to commit next."""
        self._leading_thread = 0
        self._under_way: Group | None = None
        self._usher = Usher(self, later, limits)
        self._answers = Answers()
        # What each thread waits for, and by what; an interrupted call may leave it behind.
        self._seat = Seat()

    def submit(self, operation: Operation[T] | Exclusive[T] | Adding) -> Pending[T]:
        """The future of an operation, which joins the queue when it is asked for or awaited.

        So nothing is queued that nobody waits for, and a full queue holds up only its callers.
        """
        return Pending(operation, self)

    def enter(self, pending: Pending[Any], turn: Turn | None = None) -> bool:
        """Join the queue, to be woken by this turn; False while it is full."""
        with self._mutex:
            if pending.stage != NEW:
                return True
            queue = self._alone if pending.operation.alone else self.shared
            if len(queue) >= self._most_waiting:
                return False
            pending.turn = turn or pending.turn
            # In this order: a signal's handler in between may lead, and decide what is queued.
            pending.stage = WAITING
            queue.append(pending)
            return True

    def see_through(self, pending: Pending[Any]) -> None:
        """Lead, or follow until a leader has decided this operation's fate."""
        if self.is_inside():
            raise StoreError(INSIDE)
        is_overdue = False
        try:
            alone = self._taken_alone(pending) if self.leader is None else None
            if alone is not None:
                self._lead(pending, alone)
            elif self._leading_thread:
                is_overdue = self._follow(pending)
            if pending.stage != DECIDED:
                self._lead_or_follow(pending, is_overdue)
        except BaseException:
            self._leave(pending)
            raise
        finally:
            if self.leader is pending:
                self._step_down(pending)
            if self._answers.untold:
                self._answers.tell_all()
            if self._answers.asleep:
                self._answers.wake_another()
            if self._seat.pending is pending:
                self._seat.pending = None

    def _follow(self, pending: Pending[Any]) -> bool:
        """What each of a crowd does: join the queue and lie down, while somebody is at work.

        Whatever is not as usual, and what comes after a sleep, is left to the long way; True says
        that it slept in vain.
        """
        seat = self._seat
        if seat.pending or pending.stage or pending.operation.alone or is_ours(self._mutex):
            return False
        seat.pending = pending
        turn = pending.turn = seat.turn = seat.turn or Turn()
        with self._mutex:
            if len(self.shared) >= self._most_waiting:
                return False
            # In this order: a signal's handler in between may lead, and decide what is queued.
            pending.stage = WAITING
            self.shared.append(pending)
        # Whoever leads, and steps down after this look, finds us in the queue.
        if self._leading_thread in (0, get_ident()):
            return False
        self._answers.wake_another()
        return not turn.wait(True, LOOK_UP_SECONDS)

    def _lead_or_follow(self, pending: Pending[Any], is_overdue: bool) -> None:
        deadline = 0.0
        me = get_ident()
        if self._leading_thread not in (0, me):
            self._get_ready_to_wait(pending)
        while pending.stage != DECIDED:
            if pending.stage == NEW and not self.enter(pending):
                deadline = deadline or time.monotonic() + self._room_timeout_seconds
                if time.monotonic() > deadline:
                    raise self.full()
            # Whoever leads, and steps down after this look, finds us in the queue.
            if self._leading_thread in (0, me) and self._may_lead(pending, is_overdue):
                self._lead(pending)
            elif pending.turn is None:
                # Whoever leads at once needs none; the others look again once they have it.
                self._get_ready_to_wait(pending)
            elif pending.stage != DECIDED:
                is_outside = pending.stage == NEW
                self._answers.wake_another()
                seconds = LOOK_FOR_ROOM_SECONDS if is_outside else LOOK_UP_SECONDS
                woken = pending.turn.wait(True, seconds)
                is_overdue = not woken and not is_outside

    def _get_ready_to_wait(self, pending: Pending[Any]) -> None:
        """Waiting on top of another call of this thread may hold up whoever it waits for."""
        if is_ours(self._mutex):
            raise StoreError(INSIDE)
        seat = self._seat
        if seat.pending not in (None, pending):
            self.refuse_inside(calls_allowed=1)
        seat.pending = pending
        pending.turn = seat.turn = seat.turn or Turn()

    def full(self) -> QueueFull:
        """The error of one who waited for room too long."""
        return QueueFull(
            f"{self._most_waiting} operations have been waiting to be stored for"
            f" {self._room_timeout_seconds:g} s; slow down, or see what holds up the disk"
        )

    def refuse_inside(self, calls_allowed: int = 0) -> None:
        """Raise if this thread is in the middle of one of our operations."""
        refuse_inside(self, GroupCommit.see_through.__code__, calls_allowed)

    def _leave(self, pending: Pending[Any]) -> None:
        """An interrupted caller takes its operation back, or waits for what is under way."""
        if self.leader is pending:
            self._step_down(pending)
        while not self.withdraw(pending) and pending.stage == TAKEN and self.leader is not None:
            pending.turn = pending.turn or Turn()
            pending.turn.wait(True, LOOK_UP_SECONDS)

    def withdraw(self, pending: Pending[Any], why: BaseException | None = None) -> bool:
        """Take an operation back before it is begun; False when it is too late for that."""
        with self._mutex:
            if pending.stage == WAITING:
                queue = self._alone if pending.operation.alone else self.shared
                with suppress(ValueError):
                    # Interrupted on its way into the queue, it is not there yet.
                    queue.remove(pending)
                pending.stage = NEW
            is_back = pending.stage == NEW
            if is_back and why is not None:
                pending.fail(why)
            return is_back

    def has_followers(self) -> bool:
        """Whether anybody waits for a group."""
        return bool(self.shared)

    def lead_if_nobody_does(self, who: Leader) -> bool:
        """Lead one group unless another does; False when it was another's."""
        if not self._may_lead(who):
            return False
        try:
            self._lead(who)
        finally:
            # There may be two ushers for a moment, and both go by the same turn.
            if self.leader is who and self._leading_thread == get_ident():
                self._step_down(who)
        return True

    def _may_lead(self, who: Leader, is_overdue: bool = False) -> bool:
        """Whether this thread leads from now on: nobody does, it was named, or who was is late."""
        me = get_ident()
        with self._mutex:
            at_work = self._leading_thread
            if at_work == me and self.leader is not who:
                raise StoreError(INSIDE)
            if at_work not in (0, me):
                return False
            if self.leader is None or self.leader is who or is_overdue:
                self.leader = who
                self._leading_thread = me
                return True
            return False

    def _taken_alone(self, pending: Pending[Any]) -> Group | None:
        """A group of this one, which leads itself if nobody else is there: the usual case."""
        with self._mutex:
            if self.leader or self._under_way or self.shared or self._alone or pending.stage:
                return None
            self.leader, self._leading_thread = pending, get_ident()
            group = self._under_way = Group((pending,))
            pending.stage = TAKEN
            return group

    def _lead(self, who: Leader, group: Group | None = None) -> None:
        """Commit one group, answer it, and let the next one lead."""
        try:
            group = group or self._take(who)
            self._commit(group)
        except (OutlastError, apsw.Error) as error:
            fail_all(group, error)
        except Exception as error:
            # In the main thread this may be a signal handler's, and so that caller's alone.
            if may_be_a_signals():
                raise
            fail_all(group, error)
        finally:
            self._step_down(who)
        if group is not None:
            self._committed(group)

    def _take(self, who: Leader) -> Group:
        """The next group; what is lost to an interruption on the way is found in `_under_way`."""
        with self._mutex:
            self._conclude(who)
            own = who if isinstance(who, Pending) and who.stage == WAITING else None
            if own is not None and own.operation.alone:
                group = self._under_way = Group([own])
                own.stage = TAKEN
                self._alone.remove(own)
            else:
                group = self._under_way = Group(list(self.shared))
                for member in group.members:
                    member.stage = TAKEN
                self.shared.clear()
        self._usher.tell_of_room()
        return group

    def _step_down(self, who: Leader) -> None:
        """Give up the lead and answer the group; safe to be repeated after an interruption."""
        with self._mutex:
            group = self._under_way
            if (
                not (self.shared or self._alone or group is None)
                and group.members == (who,)
                and group.members[0].stage == DECIDED
                and group.members[0].ear is None
            ):
                # A group of `_taken_alone`: nobody waits, and nobody has to be told.
                self._under_way, self._leading_thread, self.leader = None, 0, None
                return
            turn = self._name_the_next(self._conclude(who))
        self._wake_the_next(turn)
        self._answers.tell_all(who)

    def _name_the_next(self, group: Group | None) -> Turn | None:
        """Nobody leads; who is to, if it matters, and whom to wake."""
        leader = successor(group, self._alone, self.shared, self._usher)
        # Side by side: a signal's exception in between would leave one without the other.
        self.leader = leader
        self._leading_thread = 0
        return turn_of(leader) or (self.shared[0].turn if self.shared else None)

    def _wake_the_next(self, turn: Turn | None) -> None:
        if turn is not None:
            turn.wake()
        if turn is self._usher.turn:
            self._usher.call()

    def _conclude(self, who: Leader) -> Group | None:
        """Decide what an interrupted leader left undecided: unknown, or to be run by the next."""
        group = self._under_way
        if group is None:
            return None
        undecided = [member for member in group.members if member.stage != DECIDED]
        for member in reversed(undecided):
            if group.commit_sent:
                member.doubt("the leader of its group was interrupted")
                continue
            if member.ear is not None:
                # A coroutine has no thread to run it by, and the usher may have left.
                self._usher.call(member)
            if member.operation.alone and member.ear is not None:
                member.stage = NEW
                continue
            queue = self._alone if member.operation.alone else self.shared
            if member not in queue:
                queue.appendleft(member)
            member.stage = WAITING
        self._answers.untold.append(group)
        self._under_way = None
        return group

    def seen_through(self, pending: Pending[Any]) -> Generator[Any, None, None]:
        """The same for a coroutine: the usher leads on its behalf."""
        return self._usher.seen_through(pending)


def _nobody_is() -> bool:
    return False
