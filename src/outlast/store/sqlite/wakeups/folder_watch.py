"""News of names in folders, made, removed or moved: asked for in half the time of a stat.

A look at a folder's times remains the proof. This says, between two looks, that another one would
find nothing new; where the kernel cannot say so it is never quiet, and the caller looks each time.
"""

from array import array
from contextlib import suppress
from fcntl import ioctl
from os import close, read
from termios import FIONREAD

from outlast.host import kernel

_ALL_NEWS = 1 << 16


class _Watched:
    """Closed with its last user: no thread ever meets a number that has become another file's."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.unread_bytes = array("i", [0])
        self._close = close

    def __del__(self) -> None:
        self._close(self.number)


class FolderWatch:
    """What the kernel tells of some folders, from the first `listen` to the `end`."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self.watched: _Watched | None = None
        """What to ask for unread news, for whoever asks too often to call `is_quiet`."""
        self._is_refused = False
        # Now, at opening: a child forked while a thread imports something waits for ever.
        kernel.c_library()

    def is_quiet(self) -> bool:
        """Whether nothing has happened since the last `listen`."""
        watched = self.watched
        if watched is None:
            return False
        ioctl(watched.number, FIONREAD, watched.unread_bytes)
        return not watched.unread_bytes[0]

    def listen(self, begin: bool = True) -> None:
        """Forget what was told so far, and hear of what happens from now on."""
        watched = self.watched
        if watched is not None:
            with suppress(BlockingIOError):
                while read(watched.number, _ALL_NEWS):
                    continue
        elif begin and not self._is_refused:
            try:
                self.watched = _Watched(kernel.watch_names(self._folders))
            except OSError:
                # The user has no more watches, or the system has none at all.
                self._is_refused = True

    def end(self, for_good: bool = False) -> None:
        """Hear of nothing more; unless it is for good, the next `listen` begins anew."""
        self.watched, self._is_refused = None, for_good
