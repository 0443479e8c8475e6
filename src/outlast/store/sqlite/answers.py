"""Who is told that its operation is decided: threads are woken by and by, coroutines at once."""

import threading
from collections import deque
from contextlib import suppress
from typing import Any

from outlast.store.sqlite.pending import Group, Pending, Turn
from outlast.store.sqlite.usher import tell_coroutines

# So many are woken at once, and each of the others by somebody who leaves or is about to sleep: a
# crowd that wakes together only fights for the interpreter's lock.
WOKEN_AT_ONCE = 2


class Seat(threading.local):
    """Where a thread waits: its turn is made once, and used by one call of it at a time."""

    turn: Turn | None = None
    pending: Pending[Any] | None = None


class Answers:
    """Groups that are decided, and those of their members that sleep still."""

    def __init__(self) -> None:
        self.untold: deque[Group] = deque()
        self.asleep: deque[Turn] = deque()

    def tell_all(self, who: object = None) -> None:
        """Wake whoever waits for what is decided, but for the leader itself; safe to be repeated
        after an interruption."""
        while self.untold:
            # Another leader may be telling the same group at the same time, or have done so.
            with suppress(IndexError, ValueError):
                group = self.untold[0]
                ears = [one.ear for one in group.members if one.ear is not None]
                if len(ears) < len(group.members):
                    self.asleep.extend(_turns(group, who))
                tell_coroutines(ears)
                self.untold.remove(group)
        for _ in range(WOKEN_AT_ONCE):
            self.wake_another()

    def wake_another(self) -> None:
        """One of those asleep, if there is any; a lost wake-up heals, for sleepers look up."""
        try:
            turn = self.asleep.popleft()
        except IndexError:
            # Somebody else may have woken the last one in this very moment.
            return
        turn.wake()


def _turns(group: Group, who: object) -> list[Turn]:
    return [
        one.turn
        for one in group.members
        if one.turn is not None and one.ear is None and one is not who
    ]
