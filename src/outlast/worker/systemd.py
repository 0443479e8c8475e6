"""Under systemd: says when the worker is ready and when it stops, and feeds the watchdog."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


class Systemd:
    """Does nothing unless systemd asked to be told, by NOTIFY_SOCKET."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self._has_told = False
        self._has_told_the_end = False
        self._feeds_at = float("inf")
        self._feed_seconds = _watchdog_seconds() / 2

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell_the_end()

    def tick(self, is_stopping: bool) -> float:
        """Called in each round of the worker; returns how many seconds may pass before the next."""
        if not self._address:
            return float("inf")
        now = time.monotonic()
        if not self._has_told and self._is_ready():
            self._has_told = True
            self._tell("READY=1")
            self._feeds_at = now
        if is_stopping:
            self._tell_the_end()
        if now >= self._feeds_at:
            self._tell("WATCHDOG=1")
            self._feeds_at = now + self._feed_seconds
        return self._feeds_at - now

    def _tell_the_end(self) -> None:
        if not self._has_told_the_end:
            self._has_told_the_end = True
            self._tell("STOPPING=1")

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = f"\0{address[1:]}"
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(message.encode(), address)


def _watchdog_seconds() -> float:
    """How long systemd waits for a sign of life; for ever if it does not watch this process."""
    pid = os.environ.get("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return float("inf")
    try:
        return int(os.environ.get("WATCHDOG_USEC", "")) / 1e6
    except ValueError:
        return float("inf")
