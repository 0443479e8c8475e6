"""The openers' lock: whoever finds the store unused may change its shape, the others may not."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from outlast.errors import StoreBusy, StoreUnwritable
from outlast.host import kernel
from outlast.store.sqlite.side_folder.side_folder import SideFolder, open_existing

_POLL_SECONDS = 0.01
_STOPPED_SECONDS = 0.5
_FOR_GOOD = b"exclusive\n"


class OpenersLock:
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
            return self.path.read_bytes() == _FOR_GOOD
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
        began = time.monotonic()
        while not self._take(fcntl.LOCK_SH):
            waited_seconds = time.monotonic() - began
            if waited_seconds > _STOPPED_SECONDS and (stopped := self._stopped()):
                raise StoreBusy(
                    f"{self._folder.database} is being changed by process {stopped}, which is"
                    " stopped; let it go on or end it, then try again"
                )
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

    def _stopped(self) -> int | None:
        """A process that keeps us waiting and cannot go on by itself."""
        return next((pid for pid in self.users() if kernel.process_state_word(pid)), None)

    def users(self) -> list[int]:
        """The other processes that hold the lock in any way."""
        return [pid for pid in kernel.flock_holders(self.path) if pid != os.getpid()]

    def users_in_words(self) -> str:
        """The users for an error message."""
        pids = ", ".join(map(str, self.users()))
        return f"process {pids}" if pids else "another process"

    def release(self) -> None:
        """Leave the users of the store. Closing is all a forked child may do, so we do no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, mode: int) -> bool:
        try:
            descriptor = open_existing(self.path)
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
