"""Turns at the write gate: who writes on goes on for a little, then rings for whoever waits.

A transaction that follows another process's finds its caches cold, SQLite's and the processor's,
and takes half again as long as the third in a row. So, while several processes want the gate, one
that comes straight back goes on for a few transactions before it rings for the next; those who wait
sleep until they are called. None of it is needed: the gate stands open to whoever comes by.
"""

import random
import time
from collections.abc import Callable

from outlast.store.sqlite.bell import Bell
from outlast.store.sqlite.side_folder.side_folder import SideFolder

# A turn ends with whichever comes first.
_TURN_WRITES = 8
_TURN_SECONDS = 0.02

# Who is expected back and takes longer than this has kept others waiting for nothing, and rings
# after each of the next writes: twice as many as the last time.
_STRAIGHT_BACK_SECONDS = 0.002
_MOST_WRITES_RUNG_AFTER = 64

# After a wait of our own others are taken to want the gate for so many writes.
_CONTESTED_WRITES = 32

# Who writes on sleeps until it is called, in naps, for as long as somebody writes: who looks up in
# the middle of another's turn ends it. But not for longer than the turns of some others last.
# Who has waited for calls in vain looks often for a while, twice as long with each further one, as
# do those who write now and then.
_WRITES_ON_SECONDS = 0.005
_NAP_SECONDS = 0.005
_LONGEST_SLEEP_SECONDS = 0.1
_MISSED_CALLS = 2
_MISSED_LATELY_SECONDS = 0.1
_MOST_DOUBLINGS = 7
_OWN_RING_SECONDS = 0.0005


class Turns:
    """When this process lets others through, and how long it sleeps when it waits for them."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self._bell: Bell | None = None
        self._is_bell_known = False
        # For so many writes more others want the gate, as far as is known. A lone writer has none,
        # and need not tell us when it comes and goes.
        self.contested_writes = 0
        self._writes = 0
        self._ends_at = 0.0
        self._left_at = 0.0
        self._is_expected = False
        self._writes_to_ring_after = 0
        self._penalty_writes = 1
        self._missed_calls = 0
        self._missed_until = 0.0
        self.commits: Callable[[], int] = _none
        """Another number after each commit, by whomever, as far as it is known."""
        self._relies_on_calls = False

    def come_back(self) -> None:
        """We want the gate again: did we keep others waiting for nothing?"""
        now = time.monotonic()
        is_straight = now - self._left_at < _STRAIGHT_BACK_SECONDS
        if not is_straight:
            self._begin(now)
        if self._is_expected and is_straight:
            self._penalty_writes = max(1, self._penalty_writes - 1)
        elif self._is_expected:
            self._penalty_writes = min(2 * self._penalty_writes, _MOST_WRITES_RUNG_AFTER)
            self._writes_to_ring_after = self._penalty_writes

    def stand_in_row(self) -> None:
        """The gate is taken: wait to be called."""
        self._know_the_bell()
        if self._bell is not None:
            self._bell.stand_in_row()
            now = time.monotonic()
            writes_on = now - self._left_at < _WRITES_ON_SECONDS
            is_called = self._missed_calls < _MISSED_CALLS or now > self._missed_until
            self._relies_on_calls = writes_on and is_called

    def _know_the_bell(self) -> None:
        if not self._is_bell_known:
            self._bell, self._is_bell_known = Bell.of(self._folder), True

    def sleep(self, usual_seconds: float) -> None:
        """Until we are called: for the usual time, or longer if calls are to be relied on."""
        if self._bell is None:
            time.sleep(usual_seconds)
        elif self._relies_on_calls:
            self._sleep_until_called(self._bell)
        else:
            # The bell counts in whole milliseconds; looking more often was found to be less fair.
            self._bell.wait(usual_seconds)

    def _sleep_until_called(self, bell: Bell) -> None:
        """In naps: if nobody has written during one, whoever was expected back is gone."""
        lay_down_at, commits = time.monotonic(), self.commits()
        longest_seconds = _LONGEST_SLEEP_SECONDS * random.uniform(0.5, 1.0)
        while time.monotonic() - lay_down_at < longest_seconds:
            if bell.wait(_NAP_SECONDS):
                # What rings at once may be a ring of our own that nobody heard.
                if time.monotonic() - lay_down_at > _OWN_RING_SECONDS:
                    self._missed_calls = 0
                return
            before, commits = commits, self.commits()
            if commits == before:
                return
        self._miss_a_call()

    def _miss_a_call(self) -> None:
        """Perhaps nobody calls: who has the gate knows nothing of us, or was killed."""
        self._missed_calls += 1
        further = min(max(0, self._missed_calls - _MISSED_CALLS), _MOST_DOUBLINGS)
        self._missed_until = time.monotonic() + _MISSED_LATELY_SECONDS * 2**further
        self._relies_on_calls = self._missed_calls < _MISSED_CALLS

    def others_come(self) -> None:
        """Somebody has waited, perhaps for us, and may be rung for from now on."""
        self._know_the_bell()
        self.contested_writes = _CONTESTED_WRITES

    def begin(self) -> None:
        """We waited, and the gate is ours."""
        self.contested_writes = _CONTESTED_WRITES
        self._begin(time.monotonic())

    def _begin(self, now: float) -> None:
        self._writes, self._ends_at = 0, now + _TURN_SECONDS

    def leave(self) -> None:
        """The gate is open again: ring, unless our turn goes on and we are expected back."""
        now = self._left_at = time.monotonic()
        self._writes += 1
        self.contested_writes -= 1
        is_over = self._writes >= _TURN_WRITES or now > self._ends_at
        self._is_expected = not (is_over or self._writes_to_ring_after)
        if self._is_expected or self._bell is None:
            return
        self._writes_to_ring_after = max(0, self._writes_to_ring_after - 1)
        self._bell.ring()

    def close(self) -> None:
        """Wait and call no more."""
        self.contested_writes = 0
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()


def _none() -> int:
    return 0
