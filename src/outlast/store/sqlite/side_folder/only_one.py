"""What only one process does at a time: a file lock by name, which the kernel frees."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from outlast.errors import StoreBusy
from outlast.host import file_locks
from outlast.store.sqlite.connect import in_our_words
from outlast.store.sqlite.side_folder.side_folder import SideFolder

_POLL_SECONDS = 0.01


class Turn:
    """The right to go on alone; the kernel takes it back when this process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]
        self._pid = os.getpid()

    def close(self) -> None:
        """Let the next one. In a forked child this leaves the parent its turn."""
        # Taken out in one step, so that nobody closes a number that is another file's by now; a
        # lock might be inherited locked.
        with suppress(IndexError):
            descriptor = self._descriptors.pop()
            if os.getpid() == self._pid:
                # A child that was forked meanwhile has the descriptor too, and would keep the lock.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class Turns:
    """The turns that this process has, by the names of their lock files."""

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder
        self._taken: WeakSet[Turn] = WeakSet()

    def take(self, name: str, timeout_seconds: float) -> Turn | None:
        """The turn of this name. Whoever may wait gets it or an error, the others may get None."""
        path = self._folder.path / name
        turn = Turn(descriptor := self._opened(path))
        # Known before it is locked: a child that is forked now must find it.
        self._taken.add(turn)
        deadline = time.monotonic() + timeout_seconds
        try:
            with in_our_words(f"waiting for {path}", path):
                while not _is_locked(descriptor, path):
                    if not timeout_seconds:
                        turn.close()
                        return None
                    if time.monotonic() > deadline:
                        raise StoreBusy(_who_has(path, self._folder, timeout_seconds))
                    time.sleep(_POLL_SECONDS)
        except BaseException:
            turn.close()
            raise
        return turn

    def _opened(self, path: Path) -> int:
        with in_our_words(f"opening {path}", path):
            if path.parent != self._folder.path:
                self._folder.make_folder(path.parent)
            return self._folder.open_file(path)

    def is_somebodys(self, name: str) -> bool:
        """Whether somebody has the turn of this name; nothing is made by asking."""
        return self._folder.is_locked(self._folder.path / name)

    def abandon(self) -> None:
        """In a forked child: what it inherited must not outlive the parent's turn."""
        for turn in list(self._taken):
            turn.close()


def _is_locked(descriptor: int, path: Path) -> bool:
    """Whether the file is ours now, and still the one that others will find under its name."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def _who_has(path: Path, folder: SideFolder, timeout_seconds: float) -> str:
    pids = ", ".join(str(pid) for pid in file_locks.flock_holders(path))
    who = f"process {pids}" if pids else "another process"
    return (
        f"{folder.database} is being recovered by {who}; it did not finish within"
        f" {timeout_seconds:g} s, try again later"
    )
