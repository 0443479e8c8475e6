"""News of names in folders, made, removed or moved: asked for in half the time of a stat.

A look at a folder's times remains the proof. This says, between two looks, that another one would
find nothing new; where the kernel cannot say so it is never quiet, and the caller looks each time.
"""

from array import array
from contextlib import suppress
from fcntl import ioctl
from os import close, read
from termios import FIONREAD

from outlast import _host

_ALL_NEWS = 1 << 16


class FolderWatch:
    """What the kernel tells of some folders, from the first `listen` to the `end`."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self._descriptor = -1
        self._is_refused = False
        self._unread_bytes = array("i", [0])
        # Now, at opening: a child forked while a thread imports something waits for ever.
        _host.c_library()

    def is_quiet(self) -> bool:
        """Whether nothing has happened since the last `listen`."""
        if self._descriptor < 0:
            return False
        ioctl(self._descriptor, FIONREAD, self._unread_bytes)
        return not self._unread_bytes[0]

    def listen(self) -> None:
        """Forget what was told so far, and hear of what happens from now on."""
        if self._descriptor >= 0:
            with suppress(BlockingIOError):
                while read(self._descriptor, _ALL_NEWS):
                    continue
        elif not self._is_refused:
            try:
                self._descriptor = _host.watch_names(self._folders)
            except OSError:
                # The user has no more watches, or the system has none at all.
                self._is_refused = True

    def end(self) -> None:
        """Hear of nothing more; the next `listen` begins anew."""
        descriptor, self._descriptor = self._descriptor, -1
        self._is_refused = False
        if descriptor >= 0:
            close(descriptor)

    def __del__(self) -> None:
        """Users have few watches, so none is left with what is forgotten unclosed."""
        self.end()
