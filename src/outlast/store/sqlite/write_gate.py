"""The write gate: the writers of all processes queue here, so that SQLite is seldom found busy."""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

from outlast.errors import QueueStalled, StoreError, StoreUnwritable
from outlast.host import file_locks, processes
from outlast.logs import logger
from outlast.store.sqlite.side_folder.side_folder import SideFolder

# A transaction takes about so long; whoever looks more often keeps the holder from its processor.
_NAP_SECONDS = 0.001

_EXCLUSIVE_OR_NOT_AT_ALL = LOCK_EX | LOCK_NB

log = logger("outlast.store")


def stalled(pid: int | None, waited_seconds: float) -> QueueStalled:
    """The error of one who waited in vain for this process, in words that fit its state."""
    state = processes.process_state_word(pid) if pid else ""
    return QueueStalled(pid, waited_seconds, state, is_own=pid == os.getpid())


class Patience:
    """The wait for a lock: naps, a holder that stands still is named, and the end of the time."""

    def __init__(
        self,
        limits_seconds: tuple[float, float],
        culprit: Callable[[], int | None],
        began_at: float,
    ) -> None:
        """`limits_seconds` are until the holder is looked at, and until the wait is given up."""
        self._stall_seconds, self._timeout_seconds = limits_seconds
        self._culprit = culprit
        self._began_at = began_at
        self._is_named = False

    def nap(self) -> None:
        """Sleep a little, or raise QueueStalled when the time is up."""
        waited_seconds = time.monotonic() - self._began_at
        if waited_seconds > self._timeout_seconds:
            raise stalled(self._culprit(), waited_seconds)
        if waited_seconds > self._stall_seconds and not self._is_named:
            found = stalled(self._culprit(), waited_seconds)
            if found.state:
                self._is_named = True
                log.warning("%s", found)
        # At random, so that no two processes keep step.
        time.sleep(_NAP_SECONDS * random.uniform(0.5, 1.0))


class WriteGate:
    """A flock taken before each write transaction; order and fairness, never correctness."""

    def __init__(self, folder: SideFolder, limits_seconds: tuple[float, float]) -> None:
        self._path = folder.gate
        self._limits_seconds = limits_seconds
        self._descriptor: int | None = folder.open_file(folder.gate)
        self._is_ours = False
        self.retries = 0
        """How often somebody here found it taken and tried again."""
        self.blocker_pid: Callable[[], int | None] = _nobody
        """Who has SQLite's own locks; whoever has the gate may be waiting for them."""

    def enter(self, began_at: float) -> None:
        """Wait for the gate; who calls this sees to it that `leave` follows."""
        descriptor = self._descriptor
        if descriptor is None:
            raise StoreError("this store was closed; open it again")
        try:
            try:
                flock(descriptor, _EXCLUSIVE_OR_NOT_AT_ALL)
            except BlockingIOError:
                self._wait_for(descriptor, began_at)
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be locked ({error.strerror}); nothing was stored, see to the"
                " disk and its locks, then try again"
            ) from error
        self._is_ours = True

    def _wait_for(self, descriptor: int, began_at: float) -> None:
        patience = Patience(self._limits_seconds, self._culprit, began_at)
        while True:
            self.retries += 1
            patience.nap()
            with suppress(BlockingIOError):
                flock(descriptor, _EXCLUSIVE_OR_NOT_AT_ALL)
                return

    def leave(self) -> None:
        """Give the gate up, if we have it."""
        descriptor = self._descriptor
        # In a child forked meanwhile it was closed, and its number may be another file's.
        if self._is_ours and descriptor is not None:
            flock(descriptor, LOCK_UN)
        self._is_ours = False

    def _culprit(self) -> int | None:
        """Who has the gate, unless it waits for a stopped process itself."""
        blocker = self.blocker_pid()
        if blocker is not None and processes.process_state_word(blocker):
            return blocker
        holders = [pid for pid in file_locks.flock_holders(self._path) if pid != os.getpid()]
        return holders[0] if holders else None

    def close(self) -> None:
        """Give up the descriptor, and never use its number again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _nobody() -> None:
    return None
