"""Waking a thread that sleeps until one of its descriptors has something to say."""

import os
import threading
from contextlib import suppress


class Waker:
    """Wakes a thread that sleeps in select; may be called anywhere, also in a signal handler."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)
        # Held while the pipe is used: a late handler must not write to whoever got its number.
        # A signal handler may come in between, so it lets the same thread in twice.
        self._mutex = threading.RLock()
        self._is_closed = False

    def fileno(self) -> int:
        """What to wait on."""
        return self._reads

    def wake(self) -> None:
        """Wake the sleeper, now or when it next lies down."""
        with self._mutex, suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._writes, b"!")

    def drain(self) -> None:
        """Forget the wake-ups so far."""
        with suppress(BlockingIOError):
            os.read(self._reads, 4096)

    def close(self) -> None:
        """Let the descriptors go; from now on nobody is woken."""
        with self._mutex:
            self._is_closed = True
            os.close(self._reads)
            os.close(self._writes)
