"""The write gate: writers queue here, so that BEGIN IMMEDIATE seldom meets a busy store."""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from time import monotonic
from typing import ClassVar

from outlast.errors import QueueStalled, StoreError, StoreUnwritable
from outlast.host import kernel
from outlast.store.sqlite.side_folder.side_folder import SideFolder
from outlast.store.sqlite.turns import Turns
from outlast.store.sqlite.words import GATE, change, mapped

# Who sleeps long loses to whoever just let go: as long as a wait is of the usual kind, a few
# transactions of others, look often; only a longer one is worth long sleeps.
_FIRST_WAIT_SECONDS = 0.0002
_USUAL_WAIT_SECONDS = 0.0005
_USUAL_TRIES = 200
_LONGEST_WAIT_SECONDS = 0.02
_SAME_BLOCKAGE_SECONDS = 0.2
NEVER = float("-inf")

# A word is good for 32 writes of each of the others, which take longer than this.
_HEARD_SECONDS = 0.004

_EXCLUSIVE_OR_NOT_AT_ALL = LOCK_EX | LOCK_NB


class Blockage:
    """Since when a lock has been in our way, whichever of our threads waited for it.

    Whoever finds it free says so by `last_met`.
    """

    def __init__(self) -> None:
        self._since = 0.0
        self.last_met = NEVER
        self.times_met = 0

    def met(self, tried_seconds: float = 0.0) -> float:
        """The lock is taken: since when, as far as somebody here has been trying all along."""
        now = time.monotonic()
        if now - tried_seconds - self.last_met > _SAME_BLOCKAGE_SECONDS:
            self._since = now - tried_seconds
        self.last_met = now
        self.times_met += 1
        return self._since


class Patience:
    """Doubling waits with jitter, until a stopped process is found or the time is up."""

    def __init__(
        self,
        limits_seconds: tuple[float, float],
        culprit: Callable[[], int | None],
        blockage: Blockage,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._stall_seconds, self._timeout_seconds = limits_seconds
        self._culprit = culprit
        self._blockage = blockage
        self._sleep = sleep or time.sleep
        self._wait_seconds = _FIRST_WAIT_SECONDS
        self._tries = 0

    def wait(self, tried_seconds: float = 0.0) -> None:
        """Sleep a little, or raise QueueStalled when that makes no sense.

        Whoever was asked may have tried for some time by itself, which was waiting, too.
        """
        waited_seconds = time.monotonic() - self._blockage.met(tried_seconds)
        if waited_seconds > self._stall_seconds:
            pid = self._culprit()
            state = kernel.process_state_word(pid) if pid else ""
            if state or waited_seconds > self._timeout_seconds:
                raise QueueStalled(pid, waited_seconds, state, is_own=pid == os.getpid())
        self._sleep(self._wait_seconds * random.uniform(0.5, 1.0))
        self._tries += 1
        is_usual = self._tries < _USUAL_TRIES
        longest_seconds = _USUAL_WAIT_SECONDS if is_usual else _LONGEST_WAIT_SECONDS
        self._wait_seconds = min(self._wait_seconds * 2, longest_seconds)


class WriteGate:
    """A flock taken before each write transaction; order and fairness, never correctness.

    Nobody takes it whom nobody waits for: as long as the word in its file stays what it was, a
    writer goes straight to the engine. Whoever finds the engine busy changes the word, takes the
    gate, and is followed by all.
    """

    # Who passes the gate by takes it once in so long: not everybody that waits can write a word.
    alone_seconds: ClassVar[float] = 0.02

    def __init__(self, folder: SideFolder, stall_seconds: float, timeout_seconds: float) -> None:
        self._path = folder.gate
        self._limits_seconds = (stall_seconds, timeout_seconds)
        self._blockage = Blockage()
        self.turns = Turns(folder)
        self._descriptor: int | None = folder.open_file(folder.gate)
        self.words: memoryview | None = mapped(folder.gate, self._descriptor)
        """What the processes of this store tell each other, while it is open."""
        self.word_seen = 0 if self.words is None else self.words[GATE]
        self.is_ours = False
        self.alone_until = 0.0
        self._wanted_at = NEVER
        self.blocker_pid: Callable[[], int | None] = _nobody
        """Who has the engine's own locks; whoever has the gate may be waiting for them."""

    def __enter__(self) -> None:
        """The gate is ours, whether or not anybody else is known to want it."""
        self._take_turns()

    def __exit__(self, *details: object) -> None:
        """The same as `leave`."""
        self.leave()

    def enter(self) -> None:
        """Wait for our turn if anybody waits; who calls this sees to it that `leave` follows."""
        words = self.words
        if monotonic() > self.alone_until or words is None or words[GATE] != self.word_seen:
            self._take_turns()

    def insist(self) -> None:
        """The engine is busy: have the gate, and have all others come by it."""
        self._want()
        if not self.is_ours:
            self._take_turns()

    def _take_turns(self) -> None:
        descriptor, self.alone_until = self._descriptor, 0.0
        if descriptor is None:
            raise StoreError("this store was closed; open it again")
        if self.words is not None and self.words[GATE] != self.word_seen:
            self.word_seen = self.words[GATE]
            self.turns.others_come()
        if self.turns.contested_writes:
            self.turns.come_back()
        try:
            self.is_ours = True
            is_free = True
            try:
                flock(descriptor, _EXCLUSIVE_OR_NOT_AT_ALL)
            except BlockingIOError:
                is_free = False
            if not is_free:
                self._wait_for(descriptor)
            self._blockage.last_met = NEVER
            is_contested = self.turns.contested_writes > 1
            self.alone_until = 0.0 if is_contested else monotonic() + self.alone_seconds
        except BaseException as error:
            # A signal's exception may come when the lock is ours and nobody knows it yet.
            with suppress(OSError):
                self.leave()
            if not isinstance(error, OSError) or error.errno is None:
                raise
            raise StoreUnwritable(
                f"{self._path} cannot be locked ({error.strerror}); nothing was stored, see to the"
                " disk and its locks, then try again"
            ) from error

    def leave(self) -> None:
        """Give the gate up, if we have it."""
        if not self.is_ours:
            return
        self.is_ours = False
        descriptor = self._descriptor
        # In a child forked meanwhile it was closed, and its number may be another file's.
        if descriptor is not None:
            flock(descriptor, LOCK_UN)
            if self.turns.contested_writes:
                self.turns.leave()

    def _wait_for(self, descriptor: int) -> None:
        turns = self.turns
        patience = Patience(self._limits_seconds, self._culprit, self._blockage, turns.sleep)
        turns.stand_in_row()
        while True:
            patience.wait()
            with suppress(BlockingIOError):
                flock(descriptor, _EXCLUSIVE_OR_NOT_AT_ALL)
                turns.begin()
                if monotonic() - self._wanted_at > _HEARD_SECONDS:
                    self._want()
                return

    def _want(self) -> None:
        """Tell those who pass by that they are not alone; a word that cannot be written is missed
        by nobody but us, who then try until we find the engine free."""
        if self.words is not None and self._descriptor is not None:
            self._wanted_at = monotonic()
            change(self._descriptor, GATE)
            # Our own word is no news to us, and another's that came in between will be repeated.
            self.word_seen = self.words[GATE]

    @property
    def retries(self) -> int:
        """How often somebody here found it taken and tried again."""
        return self._blockage.times_met

    def _culprit(self) -> int | None:
        """Who has the gate, unless it waits for a stopped process itself."""
        blocker = self.blocker_pid()
        if blocker is not None and kernel.process_state_word(blocker):
            return blocker
        holders = [pid for pid in kernel.flock_holders(self._path) if pid != os.getpid()]
        return holders[0] if holders else None

    def close(self) -> None:
        """Give up the descriptor, and never use its number again."""
        self.words = None
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
            self.turns.close()


def _nobody() -> None:
    return None
