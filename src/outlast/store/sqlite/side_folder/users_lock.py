"""The openers' lock: whoever finds the store unused may change its shape, the others may not."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from outlast.errors import StoreBusy, StoreUnwritable
from outlast.host import file_locks, processes
from outlast.logs import logger
from outlast.store.sqlite.side_folder.safe_open import Planted
from outlast.store.sqlite.side_folder.side_folder import SideFolder

_POLL_SECONDS = 0.01
_STOPPED_SECONDS = 0.5
_FOR_GOOD = b"exclusive\n"

log = logger("outlast.store")


class UsersLock:
    """Exclusive while a store is made or migrated, shared for as long as it is in use.

    The lock is never converted in place: a failed upgrade would drop the shared lock we had.
    Each step opens the file anew instead.
    """

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    @property
    def path(self) -> Path:
        """The lock's file."""
        return self._folder.openers

    def try_exclusive(self) -> bool:
        """Take the store for ourselves, if nobody uses it."""
        return self._take(fcntl.LOCK_EX)

    def keep_exclusive(self) -> None:
        """Tell whoever finds the store taken that waiting is of no use."""
        with suppress(OSError):
            if self._descriptor is not None:
                os.pwrite(self._descriptor, _FOR_GOOD, 0)

    def _is_for_good(self) -> bool:
        with suppress(OSError):
            descriptor = self._folder.open_existing(self.path, os.O_RDONLY)
            try:
                return os.read(descriptor, len(_FOR_GOOD) + 1) == _FOR_GOOD
            finally:
                os.close(descriptor)
        return False

    def regain_exclusive(self) -> bool:
        """Have the store for ourselves again, after its side folder may have been replaced."""
        if self._descriptor is not None:
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._descriptor), os.stat(self.path)):
                    return True
        return self.try_exclusive()

    def share(self, timeout_seconds: float) -> None:
        """Join the users of the store, once whoever has it exclusively is done."""
        began, is_named = time.monotonic(), False
        while not self._take(fcntl.LOCK_SH):
            waited_seconds = time.monotonic() - began
            if waited_seconds > min(_STOPPED_SECONDS, timeout_seconds) and not is_named:
                is_named = self._name_the_stopped()
            if self._is_for_good() and self.users():
                raise StoreBusy(
                    f"{self._folder.database} is used exclusively by {self.users_in_words()}, and"
                    " nobody else can open it until that one stops"
                )
            if waited_seconds > timeout_seconds:
                raise StoreBusy(
                    f"{self._folder.database} is being changed by {self.users_in_words()};"
                    f" it did not finish within {timeout_seconds:g} s, try again later"
                )
            time.sleep(_POLL_SECONDS)

    def _name_the_stopped(self) -> bool:
        """Name in the log who keeps us waiting and cannot go on by itself; whether anybody does."""
        for pid in self.users():
            if state := processes.process_state_word(pid):
                log.warning(
                    "%s is being changed by process %d (%s); let it go on or end it",
                    self._folder.database,
                    pid,
                    state,
                )
                return True
        return False

    def users(self) -> list[int]:
        """The other processes that hold the lock in any way."""
        return [pid for pid in file_locks.flock_holders(self.path) if pid != os.getpid()]

    def users_in_words(self) -> str:
        """The users for an error message."""
        states = ((pid, processes.process_state_word(pid)) for pid in self.users())
        pids = ", ".join(f"{pid} ({state})" if state else f"{pid}" for pid, state in states)
        return f"process {pids}" if pids else "another process"

    def release(self) -> None:
        """Leave the users of the store. Closing is all a forked child may do, so we do no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, mode: int) -> bool:
        try:
            descriptor = self._folder.open_existing(self.path)
        except Planted as error:
            raise StoreUnwritable(error.sentence) from error
        except OSError as error:
            raise StoreUnwritable(
                f"{self.path} cannot be opened ({error.strerror}); give this user permission on"
                " the store, its folder and its side folder"
            ) from error
        is_ours = False
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                if mode == fcntl.LOCK_EX and os.fstat(descriptor).st_size:
                    os.ftruncate(descriptor, 0)
                self.release()
                self._descriptor, is_ours = descriptor, True
        except BlockingIOError:
            return False
        finally:
            # A signal's exception may come when the lock is ours and nobody knows it yet.
            if not is_ours:
                os.close(descriptor)
        return is_ours
